"""The loop on the fake runner: nothing lost, faults handed on, stopping and aborting."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from cbatch.clock import VirtualClock
from cbatch.config import Overflow, SchedulerConfig
from cbatch.driver import Driver, Ending
from cbatch.engine import Engine, FakeRunner
from cbatch.engine.runner import StepPlan, StepResult
from cbatch.errors import InputError, Interrupted
from cbatch.feed import LookAhead
from cbatch.types import EngineView, Job, RequestOutput, RowFault, RowRef, StepRecord
from tests.engine.factories import request


class Recorder:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.outputs: dict[str, RequestOutput] = {}
        self.faults: list[RowFault] = []
        self.steps: list[StepRecord] = []
        self.after_step: Callable[[], None] | None = None

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        self.steps.append(record)
        assert view().slots_total == record.slots_total
        if self.after_step is not None:
            self.after_step()

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        assert ref.id == output.id
        self.outputs[ref.id] = output

    def fault(self, fault: RowFault) -> None:
        self.faults.append(fault)


def ref(number: int) -> RowRef:
    return RowRef(number, str(number), f"test:{number}", 0)


def job(number: int, prompt: int = 4, max_tokens: int = 3) -> Job:
    return ref(number), request(str(number), prompt=prompt, max_tokens=max_tokens)


def drive(
    jobs: list[Job] | Iterator[Job], max_cells: int = 100, slots: int = 2, **options: Any
) -> tuple[Driver, Recorder]:
    runner = FakeRunner(max_num_seqs=slots, cells_per_seq=max_cells)
    engine = Engine(runner, SchedulerConfig(max_num_seqs=slots, share_cells=False), runner.clock)
    recorder = Recorder()
    feed = LookAhead(jobs, window=5)
    return Driver(engine, feed, [recorder], max_cells=max_cells, backlog=5, **options), recorder


def test_every_row_ends_as_output_or_fault() -> None:
    fault = RowFault(ref(3), "invalid_json", "no")
    jobs: list[Job] = [job(n) if n != 3 else fault for n in range(1, 30)]
    driver, seen = drive(jobs)
    assert driver.run().ending is Ending.COMPLETE
    assert sorted(map(int, seen.outputs)) == [n for n in range(1, 30) if n != 3]
    assert seen.faults == [fault]
    assert sum(step.finished for step in seen.steps) == 28


def test_a_prompt_beyond_the_context_is_a_fault_and_a_long_output_is_cut() -> None:
    driver, seen = drive([job(1, prompt=11), job(2, prompt=8, max_tokens=50), job(3)], max_cells=10)
    driver.run()
    assert [(fault.ref.number, fault.code) for fault in seen.faults] == [(1, "prompt_too_long")]
    assert "11 tokens, and the context holds 10" in seen.faults[0].message
    assert len(seen.outputs["2"].token_ids) == 3
    assert driver.max_tokens_cut == 1


def test_what_passes_the_context_is_counted_by_what_became_of_it() -> None:
    jobs = [job(1, prompt=11), job(2, prompt=8, max_tokens=50), job(3), job(4, prompt=2, max_tokens=9)]
    for policy, counts, lengths in (
        ("truncate-left", (1, 2, 0), [3, 6, 3, 9]),
        ("shift", (0, 1, 1), [3, 50, 3, 9]),
    ):
        driver, seen = drive(iter(jobs), max_cells=10, overflow=Overflow(policy))
        driver.run()
        assert not seen.faults
        assert (driver.max_tokens_cut, driver.prompts_cut, driver.outgrown) == counts
        assert [len(seen.outputs[str(n)].token_ids) for n in range(1, 5)] == lengths
    assert seen.outputs["2"].dropped_tokens > 0


def test_stopping_finishes_what_runs_and_counts_what_is_left() -> None:
    driver, seen = drive([job(n, max_tokens=5) for n in range(1, 6)])
    seen.after_step = driver.stop
    outcome = driver.run()
    assert outcome.ending is Ending.STOPPED
    assert len(seen.outputs) == 2
    assert outcome.rows_left == 3


class Abortable(FakeRunner):
    aborted = False

    def abort(self) -> None:
        self.aborted = True

    def run(self, plan: StepPlan) -> StepResult:
        if self.aborted:
            raise Interrupted("stop")
        return super().run(plan)


def test_aborting_drops_what_runs_and_keeps_what_has_finished() -> None:
    runner = Abortable(max_num_seqs=1, clock=VirtualClock())
    recorder = Recorder()
    engine = Engine(runner, SchedulerConfig(max_num_seqs=1), runner.clock)
    driver = Driver(engine, LookAhead([job(1, max_tokens=1), job(2, max_tokens=9)]), [recorder], max_cells=99)
    recorder.after_step = lambda: driver.abort() if "1" in recorder.outputs else None
    outcome = driver.run()
    assert outcome.ending in (Ending.ABORTED, Ending.STOPPED)
    assert list(recorder.outputs) == ["1"]


def test_an_input_that_breaks_off_costs_no_row_before_the_break() -> None:
    def jobs() -> Iterator[Job]:
        yield job(1)
        yield job(2)
        raise InputError("the file is gone")

    driver, seen = drive(jobs())
    with pytest.raises(InputError, match="gone"):
        driver.run()
    assert sorted(seen.outputs) == ["1", "2"]


def play_in_order(feed: LookAhead, after_step: Callable[[], None] | None = None) -> list[str]:
    """The ids in order of their ends, in one slot, where the longest go first at the end."""
    engine = Engine(FakeRunner(max_num_seqs=1), SchedulerConfig(1, drain="longest"))
    recorder = Recorder()
    recorder.after_step = after_step
    Driver(engine, feed, [recorder], max_cells=100).run()
    return list(recorder.outputs)


def forced(number: int, max_tokens: int) -> Job:
    return ref(number), request(str(number), max_tokens=max_tokens, ignore_eos=True)


def test_once_the_feed_is_exhausted_the_longest_rows_go_first() -> None:
    feed = LookAhead(forced(number, length) for number, length in enumerate((2, 3, 5, 4), 1))
    feed.first_window(patience_s=10)
    assert play_in_order(feed) == ["3", "4", "2", "1"]


def test_while_more_may_come_rows_run_in_order() -> None:
    steps = 0
    more = threading.Event()

    def stepped() -> None:
        nonlocal steps
        steps += 1
        if steps == 3:  # 1 and the first token of 2
            more.set()
            while not feed.exhausted and not feed.num_ready:
                time.sleep(0.001)

    def jobs() -> Iterator[Job]:
        yield from (forced(number, length) for number, length in enumerate((2, 3, 4, 5), 1))
        assert more.wait(10)
        yield forced(5, 6)

    feed = LookAhead(jobs())
    while feed.num_ready < 4:
        time.sleep(0.001)
    assert play_in_order(feed, stepped) == ["1", "2", "5", "4", "3"]


def test_the_window_is_bounded_and_can_be_looked_at() -> None:
    read = 0

    def jobs() -> Iterator[Job]:
        nonlocal read
        for number in range(1, 100):
            read = number
            yield job(number)

    feed = LookAhead(jobs(), window=7)
    window, all_read = feed.first_window(patience_s=10)
    assert (len(window), all_read) == (7, False)
    assert read <= 8
    taken: list[Job] = []
    while not feed.exhausted:
        taken += feed.take(3)
        feed.wait(1)
    assert len(taken) == 99
    feed.close()
