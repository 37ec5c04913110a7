"""Where requests' time went, as bars. Knows the parts of `Attribution`; computes none."""

from __future__ import annotations

from collections.abc import Mapping

from rich.table import Table
from rich.text import Text

from cbatch.report.charts import bar
from cbatch.report.latencies import milliseconds
from cbatch.report.layout import figures
from cbatch.report.slots import DECODE, PREFILL
from cbatch.report.text import percent

WAIT = "yellow"
PARTS = {
    "slip_ns": ("slip", WAIT),
    "queue_ns": ("queue", WAIT),
    "prefill_ns": ("own prefill", PREFILL),
    "decode_ns": ("own decode", DECODE),
    "others_prefill_ns": ("others' prefill", WAIT),
    "others_decode_ns": ("others' decode", WAIT),
    "preempted_ns": ("preempted", WAIT),
    "other_ns": ("other", "dim"),
}
"""Title and colour of each part, in the order in which they mostly happen."""
_BESIDE = 38
"""Cells of a line that aren't the bar's."""


def attribution_table(parts: Mapping[str, float], width: int, *, blocks: bool = True) -> Table:
    """A line for each of `parts`, ns: how much, which share of the whole, and that as a bar."""
    total = sum(parts.values())
    table = figures("", ("mean", "share"), min_width=7)
    table.add_column("", no_wrap=True)
    for name, (title, style) in PARTS.items():
        share = parts[name] / total if total > 0 else 0.0
        table.add_row(
            title, milliseconds(parts[name]), percent(share), Text(_bar(share, width - _BESIDE, blocks), style)
        )
    return table


def _bar(share: float, width: int, blocks: bool) -> str:
    return bar(share, width).rstrip() if blocks else "#" * round(share * width)
