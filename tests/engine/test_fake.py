"""The fake runner does as the real one where a plan asks for what isn't there."""

from __future__ import annotations

from cbatch.engine import FakeRunner
from cbatch.engine.runner import Move, StepPlan, Work
from cbatch.engine.sequence import Sequence
from tests.engine.factories import request


def test_moving_a_prompt_of_which_nothing_is_computed_rewinds_it() -> None:
    runner = FakeRunner(holes_cost=True)
    seq = Sequence(request("a", prompt=1), 0)
    seq.slot = 2
    result = runner.run(StepPlan(0, (), (), (Work(seq, 0, 1),), moves=(Move(seq, 5),)))
    assert result.rewound == {seq: 0}
    assert not result.sampled
    again = runner.run(StepPlan(1, (), (), (Work(seq, 0, 1),)))
    assert [sampled.seq for sampled in again.sampled] == [seq]
    assert runner.num_tokens(2) == 1


def test_what_is_computed_is_moved() -> None:
    runner = FakeRunner(holes_cost=True)
    seq = Sequence(request("a", prompt=4), 0)
    seq.slot = 5
    runner.run(StepPlan(0, (), (), (Work(seq, 0, 3),)))
    seq.slot = 2
    result = runner.run(StepPlan(1, (), (), (Work(seq, 3, 1),), moves=(Move(seq, 5),)))
    assert not result.rewound
    assert (runner.num_tokens(5), runner.num_tokens(2)) == (0, 4)
