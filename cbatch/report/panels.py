"""One picture of a job: figures in, lines of a given size out. Knows no terminal and no time.

No line reaches the last column, where terminals differ on wrapping, and the number of lines depends on the size and the
number of slots only, so that nothing jumps.
"""

from __future__ import annotations

from rich.text import Text

from cbatch.report import slots
from cbatch.report.charts import bar, sparkline
from cbatch.report.progress import LAST_ANSWERS, LAST_ERRORS, Figures, Rate
from cbatch.report.text import duration, fit, latency, pad, percent, rate
from cbatch.types import EngineView

LABEL = 8
FIXED = 10
"""Lines that are always there, everything but slots and answers."""
MOST_SLOT_ROWS = 8
SPARK_SECONDS = 120
FOOTER = "Ctrl-C finishes the running rows, twice stops now"


def frame(figures: Figures, title: str, width: int, height: int) -> list[Text]:
    """The dashboard, at most `height` - 1 lines of at most `width` - 1 cells.

    What there is room for is shared out in this order: slots, answers, more errors, gaps, taller sparklines.
    """
    width, room = max(1, width - 1), max(1, height - 1)
    left = max(0, room - FIXED)
    grid = _grid(figures.engine, width, min(MOST_SLOT_ROWS, max(1, left // 2)))
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
        + _throughput(figures, width, tall) + blank * (gaps > 3)
        + _latencies(figures, width) + [_kv(figures.engine, width)] + blank * (gaps > 1)
        + grid + blank * (gaps > 2)
        + _errors(figures, width, errors) + _answers(figures, width, answers)
        + [Text(fit(FOOTER, max(0, width - 4)), style="dim", no_wrap=True)]
    )  # fmt: skip
    return sections[:room]


def _label(name: str) -> Text:
    return Text(no_wrap=True).append(name.ljust(LABEL), "bold")


def _head(figures: Figures, title: str, width: int) -> list[Text]:
    eta = "stopping" if figures.stopping else f"ETA {duration(figures.eta_s)}"
    times = f"{duration(figures.elapsed_s)}  {eta}"
    first = Text(no_wrap=True).append(pad(title, max(0, width - len(times) - 1)), "bold").append(f" {times}")
    return [_cut(first, width), _cut(_rows(figures, width), width)]


def _rows(figures: Figures, width: int) -> Text:
    done, total = figures.rows_done, figures.rows_total
    counts = f"{done:,}/{total:,} rows" if total is not None else f"{done:,} rows, more to read"
    share = done / total if total else 0.0
    counts += f"  {percent(share)}" if total is not None else ""
    failed = f"  {figures.rows_failed:,} failed"
    cells = max(0, width - len(counts) - len(failed) - 1)
    line = Text(no_wrap=True)
    filled = bar(share, cells).rstrip()
    line.append(filled, "green").append("─" * (cells - len(filled)), "dim")
    return line.append(f" {counts}").append(failed, "red" if figures.rows_failed else "dim")


def _throughput(figures: Figures, width: int, tall: int) -> list[Text]:
    return [
        *_spark("output", figures.output, slots.DECODE, width, tall),
        *_spark("prefill", figures.prefill, slots.PREFILL, width, tall),
    ]


def _spark(name: str, shown: Rate, style: str, width: int, tall: int) -> list[Text]:
    words = f"{rate(shown.now):>7} tok/s  mean {rate(shown.mean):>7}  "
    cells = max(0, min(SPARK_SECONDS, width - LABEL - len(words)))
    lines = []
    for index, columns in enumerate(sparkline(shown.history, cells, tall)):
        last = index == tall - 1
        start = _label(name).append(words) if last else Text(" " * (LABEL + len(words)), no_wrap=True)
        lines.append(_cut(start.append(columns, style), width))
    return lines


def _latencies(figures: Figures, width: int) -> list[Text]:
    rows = []
    for name, values in (("TTFT", figures.ttft), ("TPOT", figures.tpot)):
        line = _label(name)
        for point, value in (("p50", values.p50_ns), ("p90", values.p90_ns), ("p99", values.p99_ns)):
            line.append(f"{point} {latency(value):<9}")
        basis = f"last {values.count:,} rows"
        if values.count and line.cell_len + len(basis) <= width:
            line.append(basis, "dim")
        rows.append(_cut(line, width))
    return rows


def _kv(view: EngineView | None, width: int) -> Text:
    line = _label("KV")
    if view is None or view.kv_total_cells == 0:
        return _cut(line, width)
    used, reserved = (cells / view.kv_total_cells for cells in (view.kv_used_cells, view.kv_reserved_cells))
    words = f" used {percent(used):>4}  reserved {percent(reserved):>5}  of {view.kv_total_cells:,} cells"
    cells = max(0, min(60, width - LABEL - len(words)))
    full, kept = round(used * cells), round(reserved * cells)
    line.append("█" * full, "cyan").append("▒" * (kept - full), "cyan")
    line.append("·" * (cells - max(full, kept)), "dim")
    return _cut(line.append(words), width)


def _grid(view: EngineView | None, width: int, rows: int) -> list[Text]:
    if view is None:
        return [_cut(_label("slots").append("starting", "dim"), width)]
    head = _label("slots").append_text(slots.legend(view, max(0, width - LABEL)))
    return [_cut(head, width), *slots.slot_grid(view, width, rows)]


def _errors(figures: Figures, width: int, lines: int) -> list[Text]:
    count = f"{figures.rows_failed:,}" if figures.rows_failed else "none"
    style = "red" if figures.rows_failed else "dim"
    first = _label("errors").append(count, style)
    shown = [first] + [_label("") for _ in range(lines - 1)]
    for line, (row, message) in zip(shown, reversed(figures.errors), strict=False):
        line.append(f"  {fit(row, 16)}: ").append(fit(message, max(0, width - line.cell_len)))
    return [_cut(line, width) for line in shown]


def _answers(figures: Figures, width: int, lines: int) -> list[Text]:
    shown = figures.answers[-lines:] if lines else ()
    out = []
    for index in range(lines):
        line = _label("answers" if index == 0 else "")
        if index < len(shown):
            row, text = shown[index]
            line.append(pad(row, 12) + " ", "dim")
            line.append(fit(text, max(0, width - line.cell_len)))
        out.append(_cut(line, width))
    return out


def _cut(line: Text, width: int) -> Text:
    line.truncate(width)
    return line
