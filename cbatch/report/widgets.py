"""What the pictures of jobs are made of: figures in, lines of a given width out. Knows no terminal and no time."""

from __future__ import annotations

from rich.text import Text

from cbatch.metrics.percentiles import Distribution
from cbatch.report import slots
from cbatch.report.charts import bar, sparkline
from cbatch.report.progress import Figures
from cbatch.report.rates import Rate
from cbatch.report.text import fit, latency, pad, percent, rate
from cbatch.types import EngineView

LABEL = 8
MOST_SLOT_ROWS = 8
SPARK_SECONDS = 120


def label(name: str) -> Text:
    return Text(no_wrap=True).append(name.ljust(LABEL), "bold")


def cut(line: Text, width: int) -> Text:
    line.truncate(width)
    return line


def headline(title: str, times: str, width: int) -> Text:
    """The title, cut to what room `times` leaves, which stand on the right."""
    line = Text(no_wrap=True).append(pad(title, max(0, width - len(times) - 1)), "bold")
    return cut(line.append(f" {times}"), width)


def share_bar(done: float, width: int, style: str, begun: float = 0.0) -> Text:
    """Filled to `done` (0 to 1), shaded on to `begun`, a thin line after it."""
    filled = bar(done, width).rstrip()
    shaded = max(0, round(min(1.0, begun) * width) - len(filled))
    line = Text(no_wrap=True).append(filled, style).append("▒" * shaded, style)
    return line.append("─" * (width - len(filled) - shaded), "dim")


def rate_lines(
    name: str, shown: Rate, unit: str, style: str, width: int, tall: int, top: float | None = None
) -> list[Text]:
    """A rate and its last seconds in `tall` lines; `top` as of `sparkline`."""
    words = f"{rate(shown.now):>7} {unit}/s  mean {rate(shown.mean):>7}  "
    return spark_lines(name, words, shown.history, style, width, tall, top)


def spark_lines(
    name: str, words: str, values: tuple[float, ...], style: str, width: int, tall: int, top: float | None = None
) -> list[Text]:
    """`words`, and a sparkline of `tall` lines that ends beside them."""
    cells = spark_cells(words, width)
    lines = []
    for index, columns in enumerate(sparkline(values, cells, tall, top)):
        last = index == tall - 1
        start = label(name).append(words) if last else Text(" " * (LABEL + len(words)), no_wrap=True)
        lines.append(cut(start.append(columns, style), width))
    return lines


def spark_cells(words: str, width: int) -> int:
    """How many seconds there is room for beside `words`."""
    return max(0, min(SPARK_SECONDS, width - LABEL - len(words)))


def throughput(figures: Figures, width: int, tall: int) -> list[Text]:
    return [
        *rate_lines("output", figures.output, "tok", slots.DECODE, width, tall),
        *rate_lines("prefill", figures.prefill, "tok", slots.PREFILL, width, tall),
    ]


def latencies(name: str, values: Distribution, unit: str, width: int, style: str = "") -> Text:
    """Percentiles of the last so many of `unit`."""
    line = label(name)
    for point, value in (("p50", values.p50_ns), ("p90", values.p90_ns), ("p99", values.p99_ns)):
        line.append(f"{point} {latency(value):<9}", style)
    basis = f"last {values.count:,} {unit}"
    if values.count and line.cell_len + len(basis) <= width:
        line.append(basis, "dim")
    return cut(line, width)


def kv(view: EngineView | None, width: int) -> Text:
    line = label("KV")
    if view is None or view.kv_total_cells == 0:
        return cut(line, width)
    used, reserved = (cells / view.kv_total_cells for cells in (view.kv_used_cells, view.kv_reserved_cells))
    words = f" used {percent(used):>4}  reserved {percent(reserved):>5}  of {view.kv_total_cells:,} cells"
    cells = max(0, min(60, width - LABEL - len(words)))
    full, kept = round(used * cells), round(reserved * cells)
    line.append("█" * full, "cyan").append("▒" * (kept - full), "cyan")
    line.append("·" * (cells - max(full, kept)), "dim")
    return cut(line.append(words), width)


def grid(view: EngineView | None, width: int, room: int) -> list[Text]:
    """A line that says how busy the slots are, and the slots in at most half of `room` lines."""
    if view is None:
        return [cut(label("slots").append("starting", "dim"), width)]
    head = label("slots").append_text(slots.legend(view, max(0, width - LABEL)))
    rows = min(MOST_SLOT_ROWS, max(1, room // 2))
    return [cut(head, width), *slots.slot_grid(view, width, rows)]


def errors(figures: Figures, width: int, lines: int) -> list[Text]:
    count = f"{figures.rows_failed:,}" if figures.rows_failed else "none"
    style = "red" if figures.rows_failed else "dim"
    first = label("errors").append(count, style)
    shown = [first] + [label("") for _ in range(lines - 1)]
    for line, (row, message) in zip(shown, reversed(figures.errors), strict=False):
        line.append(f"  {fit(row, 16)}: ").append(fit(message, max(0, width - line.cell_len)))
    return [cut(line, width) for line in shown]


def footer(text: str, width: int) -> Text:
    return Text(fit(text, max(0, width - 4)), style="dim", no_wrap=True)
