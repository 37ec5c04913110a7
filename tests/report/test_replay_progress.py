from __future__ import annotations

import threading
import time

import numpy as np
import pytest

from cbatch.clock import Clock, VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Driver
from cbatch.engine import Engine
from cbatch.engine.fake import FakeRunner
from cbatch.feed import Arrivals
from cbatch.metrics.objectives import Objectives
from cbatch.report.replay_progress import ReplayFigures, ReplayProgress
from cbatch.sampling import SamplingParams
from cbatch.types import FinishReason, Job, Request, RowRef
from tests.report.factories import (
    SECOND,
    SettableClock,
    make_fault,
    make_output,
    make_ref,
    make_request,
    make_step,
    make_view,
)


class Replay:
    """A progress, and what it is told."""

    def __init__(self, total: int | None = None, span_s: float | None = None, clock: Clock | None = None) -> None:
        self.clock = SettableClock()
        self.arrived = 0
        self.progress = ReplayProgress(
            clock if clock is not None else self.clock,
            objectives=Objectives({"ttft": SECOND}),
            arrived=lambda: self.arrived,
            total=total,
            span_s=span_s,
        )

    def at(self, ns: int, arrived: int) -> ReplayFigures:
        self.clock.ns, self.arrived = ns, arrived
        return self.progress.figures()

    def step(self, start_ns: int, end_ns: int, arrived: int, *, busy: int, finished: int = 0) -> None:
        self.clock.ns, self.arrived = end_ns, arrived
        for number in range(finished):
            self.progress.finished(make_ref(number), make_output(make_request(number), end_ns=end_ns))
        record = make_step(start_ns, end_ns, output=busy, finished=finished, busy=busy)
        self.progress.step(record, lambda: make_view(busy=busy - finished, waiting=0))


def test_before_anything_happened() -> None:
    figures = Replay(total=300, span_s=60.0).at(0, 0)
    assert (figures.arrived, figures.total, figures.span_s, figures.running, figures.waiting) == (0, 300, 60.0, 0, 0)
    assert (figures.arrivals.history, figures.completions.history, figures.queue) == ((), (), ())
    assert figures.slo[0].share is None
    assert figures.slip.p50_ns is None
    assert not figures.draining


def test_arrivals_by_second_are_seen_however_seldom_one_looks() -> None:
    replay = Replay()
    replay.at(SECOND // 2, 1)
    replay.at(SECOND, 4)
    figures = replay.at(3 * SECOND, 10)
    assert figures.arrivals.history == pytest.approx((4, 3, 3))
    assert figures.arrivals.mean == pytest.approx(10 / 3)


def test_completions_by_second() -> None:
    replay = Replay()
    replay.step(0, SECOND // 2, 10, busy=8, finished=3)
    replay.step(SECOND // 2, 3 * SECOND // 2, 10, busy=8, finished=1)
    figures = replay.at(2 * SECOND, 10)
    assert figures.completions.history == (3, 1)
    assert figures.run.rows_ok == 4


def test_whoever_has_arrived_runs_or_waits_or_has_ended() -> None:
    replay = Replay()
    assert replay.at(0, 5).waiting == 5
    replay.step(0, SECOND, 12, busy=4, finished=1)
    figures = replay.at(SECOND, 12)
    assert (figures.running, figures.waiting) == (4, 7)
    replay.progress.fault(make_fault(9))
    replay.progress.finished(
        make_ref(10), make_output(make_request(10), reason=FinishReason.ERROR, first_ns=None, error="no KV slot")
    )
    replay.progress.finished(make_ref(11), make_output(make_request(11), reason=FinishReason.CANCELLED))
    figures = replay.at(SECOND, 12)
    assert (figures.running, figures.waiting, figures.waiting_peak) == (4, 4, 7)
    assert (figures.run.rows_ok, figures.run.rows_failed) == (1, 2)
    replay.step(SECOND, 2 * SECOND, 12, busy=8, finished=8)
    figures = replay.at(2 * SECOND, 13)
    assert (figures.running, figures.waiting) == (1, 0)


def test_the_queue_is_a_mean_over_time() -> None:
    replay = Replay()
    replay.at(0, 4)
    replay.at(SECOND // 4, 8)
    assert replay.at(2 * SECOND, 8).queue == pytest.approx((7, 8))


def test_once_stopping_nobody_waits() -> None:
    replay = Replay()
    replay.step(0, SECOND, 12, busy=4)
    replay.progress.stopping()
    figures = replay.at(SECOND, 12)
    assert (figures.running, figures.waiting, figures.run.stopping) == (4, 0, True)


def test_objectives_and_slip() -> None:
    replay = Replay()
    replay.progress.fault(make_fault(1))
    late = Request("late", np.zeros(1, np.int32), arrival_ns=-30)
    replay.progress.finished(make_ref(2), make_output(late, first_ns=SECOND - 30))
    figures = replay.at(0, 2)
    assert (figures.slo[0].ended, figures.slo[0].share) == (2, 0.5)
    assert figures.slip.p50_ns == 30


def test_it_drains_when_all_have_arrived_or_the_trace_is_over() -> None:
    replay = Replay(total=10, span_s=5.0)
    assert not replay.at(4 * SECOND, 9).draining
    assert replay.at(4 * SECOND, 10).draining
    assert replay.at(6 * SECOND, 9).draining
    assert not Replay().at(6 * SECOND, 9).draining


def test_it_begins_when_told_to_on_a_clock_that_was_set_back() -> None:
    replay = Replay()
    replay.at(500 * SECOND, 0)
    replay.clock.ns = 0
    assert replay.progress.figures().arrivals.history[-1] == 0
    replay.progress.begin()
    replay.step(0, SECOND, 3, busy=2, finished=1)
    figures = replay.at(2 * SECOND, 5)
    assert figures.run.elapsed_s == 2
    assert figures.arrivals.history == pytest.approx((3, 2))
    assert figures.completions.history == (0, 1)
    assert figures.run.output.history[0] == pytest.approx(2)


def test_an_hour_of_a_real_loop() -> None:
    clock, rate, requests = VirtualClock(), 2.0, 7200
    rng = np.random.default_rng(0)
    arrivals = (np.cumsum(rng.exponential(1 / rate, requests)) * SECOND).astype(int).tolist()
    jobs: list[Job] = [
        (
            RowRef(number, str(number), f"trace:{number}", arrival),
            Request(str(number), np.zeros(8, np.int32), SamplingParams(max_tokens=4), arrival_ns=arrival),
        )
        for number, arrival in enumerate(arrivals)
    ]
    feed = Arrivals(jobs, clock)
    progress = ReplayProgress(
        clock,
        objectives=Objectives({"ttft": SECOND}),
        arrived=lambda: feed.num_arrived,
        total=requests,
        span_s=arrivals[-1] / SECOND,
    )
    runner = FakeRunner(max_num_seqs=4, clock=clock, cost_ns=lambda decodes, prefill: 100_000_000)
    Driver(Engine(runner, SchedulerConfig(max_num_seqs=4)), feed, [feed, progress], max_cells=100).run()
    figures = progress.figures()
    assert (figures.arrived, figures.run.rows_ok, figures.running, figures.waiting) == (requests, requests, 0, 0)
    assert figures.arrivals.mean == pytest.approx(rate, rel=0.05)
    assert figures.completions.mean == pytest.approx(rate, rel=0.05)
    assert sum(figures.arrivals.history) == pytest.approx(sum(figures.completions.history), abs=10)
    assert figures.slo[0].share is not None
    assert figures.slo[0].share > 0.9
    assert figures.waiting_peak > 0
    assert len(figures.queue) == 120


def test_figures_may_be_asked_for_while_the_engine_writes() -> None:
    replay, over = Replay(), threading.Event()

    def write() -> None:
        number = 0
        while not over.is_set():
            number += 1
            replay.step(number * SECOND, (number + 1) * SECOND, 2 * number, busy=2, finished=1)

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(200):
            assert replay.progress.figures().waiting >= 0
    finally:
        over.set()
        thread.join()


def test_a_step_costs_little() -> None:
    replay, view = Replay(), make_view(256)
    records = [make_step(step * SECOND // 50, (step + 1) * SECOND // 50, output=32) for step in range(2000)]
    start = time.perf_counter()
    for record in records:
        replay.progress.step(record, lambda: view)
    assert (time.perf_counter() - start) / len(records) < 100e-6  # takes about 10 µs
