"""One picture of a job: figures in, lines of a given size out. Knows no terminal and no time.

No line reaches the last column, where terminals differ on wrapping, and the number of lines depends on the size and the
number of slots only, so that nothing jumps.
"""

from __future__ import annotations

from rich.text import Text

from cbatch.report import widgets
from cbatch.report.progress import LAST_ANSWERS, LAST_ERRORS, Figures
from cbatch.report.text import duration, fit, pad, percent

FIXED = 10
"""Lines that are always there, everything but slots and answers."""
FOOTER = "Ctrl-C finishes the running rows, twice stops now"


def frame(figures: Figures, title: str, width: int, height: int) -> list[Text]:
    """The dashboard, at most `height` - 1 lines of at most `width` - 1 cells.

    What there is room for is shared out in this order: slots, answers, more errors, gaps, taller sparklines.
    """
    width, room = max(1, width - 1), max(1, height - 1)
    left = max(0, room - FIXED)
    grid = widgets.grid(figures.engine, width, left)
    left = max(0, left - len(grid) + 1)
    answers = min(LAST_ANSWERS, left)
    left -= answers
    errors = LAST_ERRORS if left >= LAST_ERRORS + 5 else 1
    left -= errors - 1
    gaps = min(4, left)
    left -= gaps
    tall = 3 if left >= 4 else 1
    blank = [Text()]
    sections = (
        _head(figures, title, width) + blank * (gaps > 0)
        + widgets.throughput(figures, width, tall) + blank * (gaps > 3)
        + _latencies(figures, width) + [widgets.kv(figures.engine, width)] + blank * (gaps > 1)
        + grid + blank * (gaps > 2)
        + widgets.errors(figures, width, errors) + _answers(figures, width, answers)
        + [widgets.footer(FOOTER, width)]
    )  # fmt: skip
    return sections[:room]


def _head(figures: Figures, title: str, width: int) -> list[Text]:
    eta = "stopping" if figures.stopping else f"ETA {duration(figures.eta_s)}"
    times = f"{duration(figures.elapsed_s)}  {eta}"
    return [widgets.headline(title, times, width), widgets.cut(_rows(figures, width), width)]


def _rows(figures: Figures, width: int) -> Text:
    done, total = figures.rows_done, figures.rows_total
    counts = f"{done:,}/{total:,} rows" if total is not None else f"{done:,} rows, more to read"
    share = done / total if total else 0.0
    counts += f"  {percent(share)}" if total is not None else ""
    failed = f"  {figures.rows_failed:,} failed"
    line = widgets.share_bar(share, max(0, width - len(counts) - len(failed) - 1), "green")
    return line.append(f" {counts}").append(failed, "red" if figures.rows_failed else "dim")


def _latencies(figures: Figures, width: int) -> list[Text]:
    shown = (("TTFT", figures.ttft), ("TPOT", figures.tpot))
    return [widgets.latencies(name, values, "rows", width) for name, values in shown]


def _answers(figures: Figures, width: int, lines: int) -> list[Text]:
    shown = figures.answers[-lines:] if lines else ()
    out = []
    for index in range(lines):
        line = widgets.label("answers" if index == 0 else "")
        if index < len(shown):
            row, text = shown[index]
            line.append(pad(row, 12) + " ", "dim")
            line.append(fit(text, max(0, width - line.cell_len)))
        out.append(widgets.cut(line, width))
    return out
