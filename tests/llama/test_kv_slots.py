"""What becomes of slots before a step computes. `test_kv_memory` has the whole of it, on every kind of memory."""

from __future__ import annotations

import numpy as np
import pytest

from cbatch.clock import WallClock
from cbatch.engine.runner import Move, StepPlan, StepResult
from cbatch.engine.sequence import Sequence
from cbatch.llama import kv_slots
from cbatch.llama.context import Context
from cbatch.llama.kv_slots import KVSlots
from cbatch.llama.model import Model
from cbatch.types import Request
from tests.llama.feeding import context, greedy, prefill, text

KEPT, SOURCE = 0, 2
"""A slot that a finished sequence still takes, and the one of the sequence that moves there."""


def move(made: Context, into: int) -> tuple[Sequence, StepResult]:
    seq, result = Sequence(Request("a", text(20)), 0), StepResult()
    seq.slot = into
    plan = StepPlan(step=0, freed=(), decodes=(), prefills=(), moves=(Move(seq, SOURCE),))
    KVSlots(made, WallClock()).prepare(plan, result)
    return seq, result


def test_a_moved_sequence_goes_on_where_a_finished_one_was(tiny: Model) -> None:
    with context(tiny) as made:
        prefill(made, KEPT, text(50, seed=1))
        first = int(prefill(made, SOURCE, text(20)).argmax())
        _, result = move(made, KEPT)
        assert not result.rewound
        assert (made.num_cells(KEPT), made.num_cells(SOURCE)) == (20, 0)
        moved = greedy(made, KEPT, first, 10, start=20)
        prefill(made, SOURCE, text(20))
        assert greedy(made, SOURCE, first, 10, start=20) == moved


@pytest.mark.parametrize("held", [0, 20])
def test_where_nothing_could_be_saved_the_new_slot_is_empty(
    tiny: Model, held: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Of a prompt that isn't computed yet there is nothing to save; of another there may be no memory for it."""
    with context(tiny) as made:
        prefill(made, KEPT, text(50, seed=1))
        if held:
            prefill(made, SOURCE, text(held))
            monkeypatch.setattr(kv_slots, "save", lambda *_: None)
        seq, result = move(made, KEPT)
        assert result.rewound == {seq: 0}
        assert (made.num_cells(KEPT), made.num_cells(SOURCE)) == (0, 0)
        assert np.isfinite(prefill(made, KEPT, text(20))).all()
