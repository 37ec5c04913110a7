"""Marks in the heartbeat at each moment of a run on the fake runner."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator

import numpy as np
import pytest

from cbatch.config import SchedulerConfig
from cbatch.driver import Driver
from cbatch.engine import Engine, FakeRunner
from cbatch.engine.sequence import Sequence
from cbatch.feed import CRASHED, LookAhead
from cbatch.sampling import SamplingParams
from cbatch.supervise.heartbeat import Heartbeat, Phase
from cbatch.supervise.watched import Watch, WatchedRunner
from cbatch.types import Request, Row, RowFault, RowRef


def row(number: int, row_id: str | None = None, max_tokens: int = 3) -> Row:
    ref = RowRef(number, row_id if row_id is not None else f"id-{number}", f"test:{number}", 0)
    return Row(ref, "hello", SamplingParams(max_tokens=max_tokens))


def encode(each: Row) -> Request:
    return Request(each.ref.id, np.ones(2, np.int32), each.sampling)


class Spying(FakeRunner):
    """Keeps what the heartbeat says while it computes, and while it forgets a sequence."""

    def __init__(self, heart: Heartbeat, slots: int) -> None:
        super().__init__(max_num_seqs=slots, next_token=self._next)
        self.heart = heart
        self.inside: list[list[int]] = []
        self.at_finish: list[list[int]] = []

    def _next(self, seq: Sequence) -> int:
        self.inside.append(self.heart.in_flight)
        return 97

    def finish(self, seq: Sequence) -> str:
        self.at_finish.append(self.heart.in_flight)
        return ""


def drive(rows: list[Row | RowFault], slots: int = 2) -> tuple[Heartbeat, Spying]:
    heart = Heartbeat()
    watch, runner = Watch(heart), Spying(heart, slots)
    engine = Engine(WatchedRunner(runner, watch), SchedulerConfig(max_num_seqs=slots, share_cells=False))
    Driver(engine, LookAhead(watch.encode(rows, encode)), [watch], max_cells=100).run()
    return heart, runner


def test_rows_in_slots_are_in_flight_until_their_step_is_over() -> None:
    heart, runner = drive([row(number) for number in (11, 12, 13)])
    assert [sorted(rows) for rows in runner.inside[:2]] == [[11, 12]] * 2
    assert runner.inside[-1] == [13]
    assert [sorted(rows) for rows in runner.at_finish] == [[11, 12], [11, 12], [13]]
    assert heart.in_flight == []
    assert heart.finished == 3
    assert heart.steps == len(runner.plans)
    assert heart.phase is Phase.RUNNING


def test_samples_of_a_row_are_one_row() -> None:
    heart = Heartbeat()
    watch, runner = Watch(heart), Spying(heart, 4)
    engine = Engine(WatchedRunner(runner, watch), SchedulerConfig(max_num_seqs=4, share_cells=False))
    sampling = SamplingParams(max_tokens=2, n=3, temperature=1.0)
    rows = [Row(RowRef(5, "five", "test:5", 0), "hello", sampling)]

    def forked(each: Row) -> Request:
        return Request(each.ref.id, np.ones(2, np.int32), each.sampling, fork_seeds=(1, 2))

    Driver(engine, LookAhead(watch.encode(rows, forked)), [watch], max_cells=100).run()
    assert all(rows == [5] for rows in runner.inside)


def test_a_faulty_row_with_anothers_id_doesnt_take_its_place() -> None:
    heart = Heartbeat()
    watch = Watch(heart)
    list(watch.encode([row(1, "same")], encode))
    watch.fault(RowFault(RowRef(2, "same", "test:2", 0), "duplicate_id", "no"))
    engine = Engine(WatchedRunner(FakeRunner(), watch))
    engine.add(encode(row(1, "same")))
    engine.step()
    assert heart.in_flight == [1]


def test_the_row_being_tokenised_is_told_only_meanwhile() -> None:
    heart, seen = Heartbeat(), []

    def spying(each: Row) -> Request:
        seen.append(heart.tokenising)
        return encode(each)

    for _ in Watch(heart).encode([row(3), row(4)], spying):
        assert heart.tokenising == 0
    assert seen == [3, 4]


def test_an_error_of_the_encoder_leaves_no_mark() -> None:
    heart = Heartbeat()

    def broken(each: Row) -> Request:
        raise ValueError(each.ref.id)

    with pytest.raises(ValueError, match="id-3"):
        list(Watch(heart).encode([row(3)], broken))
    assert heart.tokenising == 0


def test_condemned_rows_arent_tokenised() -> None:
    fault = RowFault(RowRef(1, "1", "test:1", 0), "invalid_json", "no")
    seen: list[int] = []

    def spying(each: Row) -> Request:
        seen.append(each.ref.number)
        return encode(each)

    jobs = list(Watch(Heartbeat(), {3: "it kills"}).encode([fault, row(2), row(3)], spying))
    assert seen == [2]
    assert jobs[0] is fault
    assert isinstance(jobs[2], RowFault)
    assert (jobs[2].ref.number, jobs[2].code, jobs[2].message) == (3, CRASHED, "it kills")


def test_while_suspended_no_row_is_tokenised() -> None:
    heart, entered, leave = Heartbeat(), threading.Event(), threading.Event()
    watch = Watch(heart)
    done: list[int] = []

    def slow(each: Row) -> Request:
        entered.set()
        assert leave.wait(5)
        return encode(each)

    def reading() -> Iterator[Row]:
        yield from (row(number) for number in (1, 2))

    def run() -> None:
        done.extend(
            job.ref.number if isinstance(job, RowFault) else job[0].number for job in watch.encode(reading(), slow)
        )

    reader = threading.Thread(target=run)
    reader.start()
    assert entered.wait(5)
    suspending = threading.Thread(target=watch.suspend)
    suspending.start()
    suspending.join(0.1)
    assert suspending.is_alive(), "a row is being tokenised"
    entered.clear()
    leave.set()
    suspending.join(5)
    assert heart.tokenising == 0
    assert not entered.wait(0.1)
    watch.resume()
    reader.join(5)
    assert done == [1, 2]


def test_a_step_is_told_in_microseconds() -> None:
    heart = Heartbeat()
    watch, runner = Watch(heart), FakeRunner(max_num_seqs=32)
    engine = Engine(WatchedRunner(runner, watch), SchedulerConfig(max_num_seqs=32, share_cells=False))
    for job in watch.encode([row(number, max_tokens=99) for number in range(32)], encode):
        assert not isinstance(job, RowFault)
        engine.add(job[1])
    engine.step()
    engine.step()
    costs = []
    for _ in range(1000):
        began = time.perf_counter_ns()
        watch.begin(runner.plans[-1])
        costs.append(time.perf_counter_ns() - began)
    assert len(heart.in_flight) == 32
    assert min(costs) < 20_000
