"""How replays end where they don't run out: at a deadline, on request, by a source that breaks off or falls silent."""

from __future__ import annotations

import threading
from collections.abc import Iterable, Iterator

import pytest

import cbatch.feed.paced
from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Ending, Outcome
from cbatch.engine import Engine, FakeRunner
from cbatch.errors import InputError
from cbatch.feed import Arrivals, LookAhead, PacedArrivals
from cbatch.feed.arrivals import MOST_HELD, Pacing
from cbatch.metrics.objectives import parse_objectives
from cbatch.replay import Replay
from cbatch.types import Job, RowFault, RowRef
from tests.replay.virtual import MS, play, poisson
from tests.test_driver import Recorder

SECOND = 1_000 * MS


def test_to_read_on_after_the_deadline_makes_no_request_longer() -> None:
    """What was never released is read at the end, 1 s each; the requests had ended when the time was up."""
    clock, seen, count = VirtualClock(), Recorder(), 10_000 + MOST_HELD + 200

    def jobs() -> Iterator[Job]:
        for job in poisson(1.2 * count, count):
            if clock.now_ns() >= SECOND:
                clock.advance(SECOND)
            yield job

    summary, outcome = play(
        jobs(),
        clock=clock,
        until_ns=SECOND,
        deadline_ns=SECOND,
        objectives=parse_objectives(["ttft:500"]),
        observers=[seen],
    )
    assert outcome.ending is Ending.TIME_UP
    assert clock.now_ns() > 50 * SECOND
    outputs = seen.outputs.values()
    assert len(outputs) == summary.arrived == count
    assert max(output.finished_ns for output in outputs) < 5 * SECOND  # the loop itself reads a few
    assert all(o.request.arrival_ns <= o.enqueued_ns <= o.finished_ns for o in outputs)
    assert summary.run.duration_ns < 5 * SECOND


def test_a_deadline_that_catches_nothing_is_no_end() -> None:
    fault = RowFault(RowRef(1, "1", "trace:1", 0), "invalid_json", "no")
    _, outcome = play([fault], until_ns=SECOND, deadline_ns=0)
    assert outcome.ending is Ending.COMPLETE


def test_stopped_before_the_deadline_is_stopped() -> None:
    """The requests that wait are withdrawn, so that the figures aren't of all that arrived."""
    clock, seen = VirtualClock(), Recorder()
    engine = Engine(FakeRunner(max_num_seqs=2, clock=clock, cost_ns=lambda _d, _p: 10 * MS), SchedulerConfig(2))
    feed = Arrivals(poisson(1000, 100, tokens=500), clock, Pacing(until_ns=SECOND))
    replay = Replay(engine, feed, [seen], max_cells=1000, deadline_ns=SECOND)
    seen.after_step = replay.driver.stop
    assert replay.run().ending is Ending.STOPPED
    assert all(output.finish_reason.value == "cancelled" for output in seen.outputs.values())


def real_time(jobs: Iterable[Job]) -> tuple[Replay, PacedArrivals, Recorder]:
    """A replay of 50 ms on a thread's feed; the engine's own time passes with its steps, 10 ms each."""
    clock, seen = VirtualClock(), Recorder()
    engine = Engine(FakeRunner(max_num_seqs=2, clock=clock, cost_ns=lambda _d, _p: 10 * MS), SchedulerConfig(2))
    feed = PacedArrivals(LookAhead(jobs), clock, Pacing(until_ns=50 * MS))
    return Replay(engine, feed, [seen], max_cells=1000, deadline_ns=50 * MS), feed, seen


def run(replay: Replay, feed: PacedArrivals) -> Outcome:
    feed.start()
    try:
        return replay.run()
    finally:
        feed.close()


def test_a_source_that_breaks_off_is_told_at_the_deadline_too() -> None:
    def broken() -> Iterator[Job]:
        yield from poisson(1e9, 3, tokens=500)
        raise InputError("the prompts are gone")

    replay, feed, seen = real_time(broken())
    with pytest.raises(InputError, match="gone"):
        run(replay, feed)
    assert len(seen.outputs) == 3


def test_a_silent_source_holds_up_the_end_for_a_while_only(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cbatch.feed.paced, "_PATIENCE_S", 0.05)
    woken = threading.Event()

    def silent() -> Iterator[Job]:
        yield from poisson(1e9, 3, tokens=500)
        woken.wait(60)

    replay, feed, seen = real_time(silent())
    assert run(replay, feed).ending is Ending.TIME_UP
    assert len(seen.outputs) == 3
    woken.set()


def test_stopped_while_the_rest_is_told() -> None:
    class Left(Arrivals):
        def unreleased(self) -> Iterator[Job]:
            for number, job in enumerate(super().unreleased()):
                if number == 1:
                    replay.driver.stop()
                yield job

    clock, seen = VirtualClock(), Recorder()
    engine = Engine(FakeRunner(clock=clock, cost_ns=lambda _d, _p: SECOND), SchedulerConfig(1))
    feed = Left(poisson(100, 50), clock, Pacing(max_concurrency=1, until_ns=SECOND))
    replay = Replay(engine, feed, [seen], max_cells=1000, deadline_ns=SECOND)
    assert replay.run().ending is Ending.STOPPED
    assert len(seen.outputs) == 3  # finished, cancelled in the engine, told
