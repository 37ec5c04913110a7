"""Gaps between slots: what they cost, and when they are closed."""

from __future__ import annotations

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.engine.compaction import expected_left, runs
from cbatch.engine.runner import StepPlan, StepResult
from cbatch.engine.sequence import Sequence
from tests.engine.factories import request

MS = 1_000_000


class Streams(FakeRunner):
    """Each run of neighbouring slots costs 10 ms a step and each sequence 1 ms; a move 1 ms."""

    def __init__(self) -> None:
        self._clock = VirtualClock()
        super().__init__(max_num_seqs=8, clock=self._clock, cost_ns=self._cost, holes_cost=True, split_calls=True)
        self._slots: list[int] = []
        self.broken = 0
        """Steps with gaps between the slots that decoded."""

    def run(self, plan: StepPlan) -> StepResult:
        self._slots = [work.seq.slot for work in plan.decodes if work.seq.slot is not None]
        self.broken += runs(self._slots) > 1
        result = super().run(plan)
        self._clock.advance(len(plan.moves) * MS)
        result.move_ns = len(plan.moves) * MS
        return result

    def _cost(self, decodes: int, prompts: int) -> int:
        return (10 * runs(self._slots) + decodes) * MS if decodes else prompts * MS


def play(**config: object) -> tuple[Streams, int]:
    """Eight rows that end one after the other, even slots first; how long it took, ns."""
    runner = Streams()
    batch = Engine(runner, SchedulerConfig(8, **config))  # type: ignore[arg-type]
    for i in range(8):
        batch.add(request(str(i), max_tokens=20 + 10 * i if i % 2 else 10 + i, ignore_eos=True))
    while batch.has_work:
        batch.step()
        batch.check_integrity()
    return runner, runner.clock.now_ns()


def test_closing_gaps_pays() -> None:
    runner, compacted = play()
    loose, holes = play(compact=False)
    assert sum(len(plan.moves) for plan in runner.plans) >= 3
    assert compacted < 0.75 * holes
    assert runner.broken < 0.2 * loose.broken


def test_static_groups_close_theirs_too() -> None:
    runner, compacted = play(batching="static")
    _, holes = play(batching="static", compact=False)
    assert any(plan.moves for plan in runner.plans)
    assert compacted < 0.75 * holes


def test_runs_are_groups_of_neighbours() -> None:
    assert runs([]) == 0
    assert runs([3, 1, 2]) == 1
    assert runs([0, 2, 3, 7]) == 3


def test_a_sequence_is_expected_to_go_on_as_long_as_it_has() -> None:
    seq = Sequence(request("a", max_tokens=100), 0)
    assert expected_left(seq) == 16
    for _ in range(60):
        seq.append(1, 0)
    assert expected_left(seq) == 40
    forced = Sequence(request("b", max_tokens=100, ignore_eos=True), 0)
    assert expected_left(forced) == 100
