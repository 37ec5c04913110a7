"""The engine between two steps, for display."""

from __future__ import annotations

from cbatch.engine.places import Places
from cbatch.engine.sequence import Sequence
from cbatch.types import EngineView, SlotView


def view_of(places: Places) -> EngineView:
    """What runs and waits now."""
    kv = places.kv
    return EngineView(
        slots=tuple(sorted((_slot_view(seq) for seq in places.running), key=lambda view: view.slot)),
        slots_total=places.slots.total,
        waiting=len(places.waiting),
        kv_used_cells=kv.used,
        kv_reserved_cells=kv.reserved,
        kv_total_cells=kv.capacity.total_cells,
    )


def _slot_view(seq: Sequence) -> SlotView:
    assert seq.slot is not None
    if seq.num_output:
        return SlotView(seq.slot, seq.id, "decode", seq.num_output, seq.request.sampling.max_tokens)
    return SlotView(seq.slot, seq.id, "prefill", seq.num_computed, seq.num_prompt)
