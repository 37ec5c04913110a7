"""Whole replays in virtual time: overload, the deadline, warm-ups, bounded memory."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Ending
from cbatch.engine import Engine, FakeRunner
from cbatch.feed.arrivals import MOST_HELD
from cbatch.metrics.objectives import parse_objectives
from cbatch.replay import warm_up
from cbatch.types import EngineView, Job, RequestOutput, RowFault, RowRef, StepRecord
from tests.engine.factories import request
from tests.replay.virtual import MS, play, poisson

CAPACITY = 400
"""Requests per second of 4 slots where each takes one step of 10 ms."""


def test_below_capacity_a_replay_is_steady() -> None:
    summary, outcome = play(poisson(0.7 * CAPACITY, 4000), slots=4, objectives=parse_objectives(["ttft:100"]))
    assert outcome.ending is Ending.COMPLETE
    assert (summary.arrived, summary.completed, summary.unfinished) == (4000, 4000, 0)
    assert summary.saturation is not None
    assert not summary.saturation.saturated
    assert summary.steady is not None
    assert summary.realised_rate == pytest.approx(0.7 * CAPACITY, rel=0.05)
    assert summary.slip.p50_ns == 0
    assert summary.attainment == 1
    assert summary.goodput_rps == summary.run.requests_per_s


def test_at_twice_the_capacity_the_run_ends_and_says_that_it_is_saturated() -> None:
    summary, outcome = play(poisson(2 * CAPACITY, 4000), slots=4, objectives=parse_objectives(["ttft:100"]))
    assert outcome.ending is Ending.COMPLETE
    assert summary.completed == 4000
    assert summary.saturation is not None
    assert summary.saturation.saturated
    assert summary.steady is None
    assert summary.run.requests_per_s == pytest.approx(CAPACITY, rel=0.02)
    assert (summary.attainment or 1) < 0.1
    assert summary.run.slot_utilisation == pytest.approx(1, abs=0.01)


def test_at_a_deadline_the_unfinished_half_counts_as_endless() -> None:
    """5 s of arrivals at twice the capacity, and no time to drain: half of them never finish."""
    summary, outcome = play(
        poisson(2 * CAPACITY, 10_000),
        slots=4,
        objectives=parse_objectives(["ttft:100"]),
        until_ns=5_000 * MS,
        deadline_ns=5_000 * MS,
    )
    assert outcome.ending is Ending.TIME_UP
    assert summary.arrived == summary.completed + summary.unfinished == pytest.approx(4000, rel=0.05)
    assert summary.unfinished == pytest.approx(2000, rel=0.1)
    assert summary.saturation is not None
    assert summary.saturation.saturated
    completed, honest = summary.latencies["ttft_ns"], summary.adjusted["ttft_ns"]
    assert completed.count == summary.completed
    assert honest.count == summary.arrived
    assert np.isfinite(completed.p99_ns or np.inf)
    assert honest.p90_ns == honest.p99_ns == np.inf


class Live:
    """Counts jobs between leaving the trace and their end."""

    def __init__(self, jobs: Iterator[Job]) -> None:
        self._jobs = jobs
        self._now = self.most = self.ended = 0

    def __iter__(self) -> Iterator[Job]:
        for job in self._jobs:
            self._now += 1
            self.most = max(self.most, self._now)
            yield job

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        pass

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self._now -= 1
        self.ended += 1

    def fault(self, fault: RowFault) -> None:
        raise AssertionError(fault)


def test_in_overload_only_so_many_requests_leave_the_trace() -> None:
    """Without a bound 30,000 would wait at the last arrival."""
    live = Live(poisson(2 * CAPACITY, 60_000))
    summary, _ = play(live, slots=4, observers=[live])
    assert live.ended == summary.completed == 60_000
    assert live.most <= 10_000 + MOST_HELD + 4 + 1


def test_warm_ups_run_and_leave_nothing_behind() -> None:
    runner = FakeRunner(max_num_seqs=2, clock=VirtualClock())
    engine = Engine(runner, SchedulerConfig(2))
    warm_up(engine, [request("a"), request("a"), request("long", prompt=90)], max_cells=20, wanted=lambda: True)
    assert len(runner.plans) == 3
    assert not engine.has_work
    engine.check_integrity()
    warm_up(engine, [request("a", max_tokens=9)], max_cells=20, wanted=lambda: len(runner.plans) < 5)
    assert len(runner.plans) == 5
    assert not engine.has_work
    engine.check_integrity()
