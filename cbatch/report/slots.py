"""The slots as a grid of small bars: colour and glyph tell the phase, the filling how far it is."""

from __future__ import annotations

import math

from rich.text import Text

from cbatch.report.charts import VERTICAL, bar
from cbatch.types import EngineView, SlotView

DECODE = "green"
PREFILL = "magenta"
FREE = "dim"
WIDEST = 24
_SHADES = "░▒▓"


def slot_grid(view: EngineView, width: int, max_rows: int) -> list[Text]:
    """At most `max_rows` lines of at most `width` cells, always as many for the same slots and space.

    Where not even one cell a slot fits, one bar shows how many are in which phase.
    """
    gutter = len(str(view.slots_total - 1)) + 1
    per_row = _per_row(view.slots_total, width - gutter, max_rows)
    if per_row is None:
        return [_phases(view, width)]
    gap = 1 if (width - gutter) // per_row >= 2 else 0
    cells = min(WIDEST, (width - gutter) // per_row - gap)
    busy = {slot.slot: slot for slot in view.slots}
    rows = range(0, view.slots_total, per_row)
    return [_row(busy, first, min(per_row, view.slots_total - first), cells, gap, gutter) for first in rows]


def phase_counts(view: EngineView) -> tuple[int, int, int]:
    """(decoding, prefilling, free)."""
    prefill = sum(slot.phase == "prefill" for slot in view.slots)
    return len(view.slots) - prefill, prefill, view.slots_total - len(view.slots)


def _per_row(slots: int, width: int, max_rows: int) -> int | None:
    """Slots on a line: as few as the lines allow, a power of two where one fits."""
    least = math.ceil(slots / max_rows)
    power = 1 << (least - 1).bit_length()
    if power <= width:
        return power
    return least if least <= width else None


def _row(busy: dict[int, SlotView], first: int, count: int, cells: int, gap: int, gutter: int) -> Text:
    line = Text(f"{first:>{gutter - 1}} ", style="dim", no_wrap=True)
    for slot in range(first, first + count):
        glyphs, style = _slot(busy.get(slot), cells)
        line.append(glyphs + " " * gap, style)
    return line


def _slot(slot: SlotView | None, cells: int) -> tuple[str, str]:
    if slot is None:
        return "·" * cells, FREE
    share = min(1.0, slot.done / max(1, slot.total))
    if slot.phase == "prefill":
        return _prefill(share, cells), PREFILL
    if cells == 1:
        return VERTICAL[max(1, math.ceil(share * 8))], DECODE
    filled = bar(max(share, 1 / (8 * cells)), cells).rstrip()
    return filled.ljust(cells, "·"), DECODE


def _prefill(share: float, cells: int) -> str:
    if cells == 1:
        return _SHADES[min(2, int(share * 3))]
    return ("▒" * max(1, round(share * cells))).ljust(cells, "·")


def _phases(view: EngineView, width: int) -> Text:
    """One bar for all slots."""
    decode, prefill, _ = phase_counts(view)
    scale = width / view.slots_total
    decoding, busy = round(decode * scale), round((decode + prefill) * scale)
    parts = [("█" * decoding, DECODE), ("▒" * (busy - decoding), PREFILL), ("·" * (width - busy), FREE)]
    return Text.assemble(*parts, no_wrap=True)


def legend(view: EngineView, width: int) -> Text:
    """The line above the grid: how many slots are busy, the queue, and what the glyphs mean."""
    decode, prefill, free = phase_counts(view)
    line = Text(f"{len(view.slots)}/{view.slots_total} busy  {view.waiting:,} waiting", no_wrap=True)
    for glyph, style, count, phase in (
        ("█", DECODE, decode, "decode"),
        ("▒", PREFILL, prefill, "prefill"),
        ("·", FREE, free, "free"),
    ):
        words = f" {count} {phase}"
        if line.cell_len + 3 + len(words) <= width:
            line.append(f"  {glyph}", style).append(words)
    return line
