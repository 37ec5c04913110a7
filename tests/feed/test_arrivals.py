"""Release at arrival times: exactly on a virtual clock, with the real lateness on a real one; limits; the end."""

from __future__ import annotations

import time
from collections.abc import Iterable
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock, WallClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Driver, Ending
from cbatch.engine import Engine, FakeRunner
from cbatch.errors import InputError, UsageError
from cbatch.feed import Arrivals, LookAhead, PacedArrivals
from cbatch.feed.arrivals import Pacing
from cbatch.sampling import SamplingParams
from cbatch.types import Job, Request, RequestOutput, RowFault, RowRef
from tests.test_driver import Recorder


def job(number: int, arrival_ns: int, tokens: int = 1) -> Job:
    ref = RowRef(number, str(number), f"trace:{number}", arrival_ns)
    return ref, Request(str(number), np.ones(1, np.int32), SamplingParams(max_tokens=tokens), 0, arrival_ns)


def jobs(arrivals: Iterable[int], tokens: int = 1) -> list[Job]:
    return [job(number, at, tokens) for number, at in enumerate(arrivals)]


def replay(
    work: list[Job],
    pacing: Pacing | None = None,
    *,
    slots: int = 1,
    step_ns: int = 10,
    deadline_ns: int | None = None,
    **scheduler: Any,
) -> tuple[Recorder, Arrivals, Ending]:
    """On the fake runner, where a step takes `step_ns`."""
    clock = VirtualClock()
    runner = FakeRunner(max_num_seqs=slots, clock=clock, cost_ns=lambda _d, _p: step_ns)
    engine = Engine(runner, SchedulerConfig(slots, **scheduler))
    seen, feed = Recorder(), Arrivals(work, clock, pacing)
    driver = Driver(engine, feed, [feed, seen], max_cells=1000, deadline_ns=deadline_ns)
    return seen, feed, driver.run().ending


def times(seen: Recorder) -> list[tuple[int, int, int | None, int]]:
    """(arrival, enqueued, admitted, finished) by request."""
    outputs = sorted(seen.outputs.values(), key=lambda output: int(output.id))
    return [(o.request.arrival_ns, o.enqueued_ns, o.admitted_ns, o.finished_ns) for o in outputs]


def test_a_request_is_enqueued_the_moment_it_arrives_even_inside_a_step() -> None:
    seen, feed, ending = replay(jobs([5, 7, 100]))
    assert ending is Ending.COMPLETE
    assert times(seen) == [(5, 5, 5, 15), (7, 7, 15, 25), (100, 100, 100, 110)]
    assert feed.num_arrived == 3


def test_a_limit_holds_requests_back_until_one_ends() -> None:
    seen, _, _ = replay(jobs([0, 1, 2]), Pacing(max_concurrency=1), slots=4)
    assert times(seen) == [(0, 0, 0, 10), (1, 10, 10, 20), (2, 20, 20, 30)]


def test_what_came_while_there_was_room_is_stamped_with_its_arrival() -> None:
    seen, _, _ = replay(jobs([0, 3, 4]), Pacing(max_concurrency=2), slots=4)
    assert [row[:2] for row in times(seen)] == [(0, 0), (3, 3), (4, 10)]


def test_in_a_closed_loop_a_request_arrives_when_another_ends() -> None:
    seen, feed, _ = replay(jobs([0, 0, 0, 0, 0]), Pacing(max_concurrency=2, closed_loop=True), slots=2)
    assert [row[:2] for row in times(seen)] == [(0, 0), (0, 0), (10, 10), (10, 10), (20, 20)]
    assert feed.num_arrived == 5


def test_in_a_closed_loop_time_brings_no_arrival() -> None:
    """Though the trace has times that are long past: an engine that waits would wait for ever."""
    clock = VirtualClock()
    feed = Arrivals(jobs([0, 0, 0]), clock, Pacing(max_concurrency=2, closed_loop=True))
    assert len(feed.take(9)) == 2
    feed.wait(1, until_ns=50)
    assert clock.now_ns() == 50


def test_in_a_closed_loop_a_static_group_that_stays_small_begins_when_it_has_waited() -> None:
    pacing = Pacing(max_concurrency=2, closed_loop=True)
    seen, _, _ = replay(jobs([0, 0, 0, 0]), pacing, slots=4, batching="static", static_wait_ns=50)
    assert times(seen) == [(0, 0, 50, 60), (0, 0, 50, 60), (60, 60, 110, 120), (60, 60, 110, 120)]


def test_a_faulty_row_has_its_time_too_and_makes_room_for_others() -> None:
    fault = RowFault(RowRef(1, "1", "trace:1", 4), "invalid_json", "no")
    seen, feed, _ = replay([job(0, 0), fault, job(2, 6)], Pacing(max_concurrency=1))
    assert seen.faults == [fault]
    assert [row[1] for row in times(seen)] == [0, 10]
    assert feed.num_arrived == 3


def test_nothing_arrives_at_the_end_or_later() -> None:
    seen, feed, ending = replay(jobs([0, 49, 50, 51]), Pacing(until_ns=50))
    assert ending is Ending.COMPLETE
    assert list(seen.outputs) == ["0", "1"]
    assert not list(feed.unreleased())


def test_a_closed_loop_ends_too() -> None:
    seen, _, ending = replay(jobs([0] * 100), Pacing(max_concurrency=2, closed_loop=True, until_ns=30), slots=2)
    assert ending is Ending.COMPLETE
    assert len(seen.outputs) == 6


def test_at_the_deadline_what_is_unfinished_is_cancelled_and_what_was_held_is_told() -> None:
    seen, feed, ending = replay(
        jobs([0, 1, 2, 3, 90]), Pacing(max_concurrency=2, until_ns=50), slots=1, step_ns=20, deadline_ns=30
    )
    assert ending is Ending.TIME_UP
    reasons = {output.id: output.finish_reason.value for output in seen.outputs.values()}
    assert reasons == {"0": "length", "1": "length", "2": "cancelled", "3": "cancelled"}
    assert not list(feed.unreleased())


def test_what_never_got_past_the_limit_is_left_in_the_feed() -> None:
    seen, feed, _ = replay(
        jobs([0, 1, 2, 3, 90], tokens=9), Pacing(max_concurrency=1, until_ns=50), step_ns=20, deadline_ns=30
    )
    assert list(seen.outputs) == ["0"]
    assert [left[0].id for left in feed.unreleased() if not isinstance(left, RowFault)] == ["1", "2", "3"]
    assert feed.num_arrived == 4


@given(
    st.lists(st.tuples(st.integers(0, 30), st.integers(1, 3)), max_size=20),
    st.none() | st.integers(1, 4),
    st.integers(1, 3),
)
def test_nothing_is_lost_or_early_and_the_limit_holds(
    load: list[tuple[int, int]], limit: int | None, slots: int
) -> None:
    arrivals = np.cumsum([gap for gap, _ in load]).tolist()
    work = [job(n, at, tokens) for n, (at, (_, tokens)) in enumerate(zip(arrivals, load, strict=True))]
    seen, _, _ = replay(work, Pacing(max_concurrency=limit), slots=slots)
    assert len(seen.outputs) == len(load)
    outputs = list(seen.outputs.values())
    assert all(o.request.arrival_ns <= o.enqueued_ns <= (o.admitted_ns or 0) <= o.finished_ns for o in outputs)
    if limit is None:
        assert all(o.enqueued_ns == o.request.arrival_ns for o in outputs)
    else:
        assert all(_in_flight(outputs, o.enqueued_ns) <= limit for o in outputs)


def _in_flight(outputs: list[RequestOutput], at_ns: int) -> int:
    return sum(o.enqueued_ns <= at_ns < o.finished_ns for o in outputs)


def test_hours_of_traffic_take_no_time() -> None:
    began = time.perf_counter()
    seen, _, _ = replay(jobs(range(0, 3_600_000_000_000 * 24, 360_000_000_000)), step_ns=1_000_000)
    assert len(seen.outputs) == 240
    assert time.perf_counter() - began < 2


def test_in_real_time_requests_are_released_while_the_engine_is_busy() -> None:
    """A step of 50 ms doesn't delay what arrives inside it, but its place in a slot."""
    clock = WallClock()
    feed = PacedArrivals(LookAhead(jobs([0, 20_000_000, 40_000_000])), clock)
    clock.restart()
    feed.start()
    taken: list[Job] = []
    while not feed.exhausted:
        feed.wait(1)
        time.sleep(0.05)
        taken += feed.take(9)
    feed.close()
    assert len(taken) == 3
    for each in taken:
        assert not isinstance(each, RowFault)
        enqueued = each[1].enqueued_ns
        assert enqueued is not None
        assert 0 <= enqueued - each[1].arrival_ns < 20_000_000


def test_in_real_time_a_slow_source_shows_as_lateness() -> None:
    def slow() -> Iterable[Job]:
        yield job(0, 0)
        time.sleep(0.1)
        yield job(1, 1)

    clock = WallClock()
    feed = PacedArrivals(LookAhead(slow()), clock)
    feed.start()
    taken: list[Job] = []
    while not feed.exhausted:
        feed.wait(1)
        taken += feed.take(9)
    feed.close()
    assert not isinstance(taken[1], RowFault)
    assert (taken[1][1].enqueued_ns or 0) > 80_000_000


def test_in_real_time_a_broken_source_is_told() -> None:
    def broken() -> Iterable[Job]:
        yield job(0, 0)
        raise InputError("the trace is gone")

    feed = PacedArrivals(LookAhead(broken()), WallClock())
    feed.start()
    while not feed.exhausted:
        feed.take(9)
        feed.wait(0.1)
    with pytest.raises(InputError, match="gone"):
        feed.check()
    feed.close()


def test_pacing_is_checked() -> None:
    with pytest.raises(UsageError, match="max-concurrency is 0"):
        Pacing(max_concurrency=0)
    with pytest.raises(UsageError, match="needs --max-concurrency"):
        Pacing(closed_loop=True)
