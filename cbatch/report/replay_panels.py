"""One picture of a replay: figures in, lines of a given size out. Knows no terminal and no time.

As in `panels`, no line reaches the last column, and the number of lines depends on the size, the number of slots and
the number of objectives only.
"""

from __future__ import annotations

from dataclasses import replace

from rich.text import Text

from cbatch.report import slots, widgets
from cbatch.report.attainment import RECENT, Attainment
from cbatch.report.progress import LAST_ERRORS
from cbatch.report.replay_progress import ReplayFigures
from cbatch.report.text import duration, percent

FIXED = 14
"""Lines that are always there, everything but objectives and slots."""
MOST_GAPS = 5
ARRIVED = "cyan"
LATE_NS = 5e6
"""A driver that is later than this with a request distorts what it measures."""
FOOTER = "Ctrl-C finishes the running requests, twice stops now"


def sweep_title(title: str, request_rate: float, number: int, of: int | None) -> str:
    """`title` of one rate of a sweep, the `number`-th (from 1) `of` so many; None where it isn't known how many.

    The rate stands first, as a long title is cut at its end.
    """
    return f"{request_rate:.4g} req/s (rate {number}{'' if of is None else f' of {of}'})  {title}"


def replay_frame(figures: ReplayFigures, title: str, width: int, height: int) -> list[Text]:
    """The dashboard, at most `height` - 1 lines of at most `width` - 1 cells.

    What there is room for is shared out in this order: slots, each objective, more errors, gaps, taller sparklines.
    """
    width, room = max(1, width - 1), max(1, height - 1)
    left = max(0, room - FIXED - min(1, len(figures.slo)))
    grid = _grid(figures, width, left)
    left = max(0, left - len(grid) + 1)
    objectives = min(left, max(0, len(figures.slo) - 1))
    left -= objectives
    errors = LAST_ERRORS if left >= LAST_ERRORS + MOST_GAPS else 1
    left -= errors - 1
    gaps = min(MOST_GAPS, left)
    left -= gaps
    tall = 3 if left >= 10 else 2 if left >= 5 else 1
    blank = [Text()]
    sections = (
        _head(figures, title, width) + blank * (gaps > 0)
        + _traffic(figures, width, tall) + blank * (gaps > 3)
        + widgets.throughput(figures.run, width, tall) + blank * (gaps > 4)
        + _latencies(figures, width) + _objectives(figures.slo[: 1 + objectives], width) + blank * (gaps > 1)
        + [widgets.kv(figures.run.engine, width)] + grid + blank * (gaps > 2)
        + widgets.errors(figures.run, width, errors)
        + [widgets.footer(FOOTER, width)]
    )  # fmt: skip
    return sections[:room]


def _head(figures: ReplayFigures, title: str, width: int) -> list[Text]:
    run = figures.run
    times = duration(run.elapsed_s)
    times += f" of {duration(figures.span_s)}" if figures.span_s is not None else ""
    times += "  stopping" if run.stopping else "  draining" if figures.draining else ""
    return [widgets.headline(title, times, width), widgets.cut(_counts(figures, width), width)]


def _counts(figures: ReplayFigures, width: int) -> Text:
    """Completed and arrived of all, as a bar and in figures."""
    run, total = figures.run, figures.total
    of = f"/{total:,}" if total is not None else ""
    words = f"arrived {figures.arrived:,}{of}  completed {run.rows_ok:,}"
    failed = f"  failed {run.rows_failed:,}"
    done, begun = (count / total if total else 0.0 for count in (run.rows_ok, figures.arrived))
    line = widgets.share_bar(done, max(0, width - len(words) - len(failed) - 1), slots.DECODE, begun)
    return line.append(f" {words}").append(failed, "red" if run.rows_failed else "dim")


def _traffic(figures: ReplayFigures, width: int, tall: int) -> list[Text]:
    """Arrivals against completions on one scale, and the queue."""
    queue = f"{figures.waiting:>7,}        peak {figures.waiting_peak:>7,}  "
    seconds = widgets.spark_cells(queue, width)
    top = max(figures.arrivals.history[-seconds:] + figures.completions.history[-seconds:], default=0.0)
    return [
        *widgets.rate_lines("arrived", figures.arrivals, "req", ARRIVED, width, tall, top),
        *widgets.rate_lines("done", figures.completions, "req", slots.DECODE, width, tall, top),
        *widgets.spark_lines("waiting", queue, figures.queue, ARRIVED, width, tall),
    ]


def _latencies(figures: ReplayFigures, width: int) -> list[Text]:
    slip = figures.slip
    highest = next((p for p in (slip.p99_ns, slip.p90_ns) if p is not None), 0.0)
    return [
        widgets.latencies("TTFT", figures.run.ttft, "requests", width),
        widgets.latencies("TPOT", figures.run.tpot, "requests", width),
        widgets.latencies("slip", slip, "requests", width, "red" if highest > LATE_NS else ""),
    ]


def _objectives(slo: tuple[Attainment, ...], width: int) -> list[Text]:
    return [widgets.cut(_objective(each, first=index == 0), width) for index, each in enumerate(slo)]


def _objective(shown: Attainment, *, first: bool) -> Text:
    line = widgets.label("SLO" if first else "").append(f"{shown.name:<14}{percent(shown.share):>7}")
    line.append(f"  last {min(RECENT, shown.ended):<3} {percent(shown.recent):>6}")
    return line.append(f"  of {shown.ended:,} ended", "dim")


def _grid(figures: ReplayFigures, width: int, room: int) -> list[Text]:
    view = figures.run.engine
    return widgets.grid(None if view is None else replace(view, waiting=figures.waiting), width, room)
