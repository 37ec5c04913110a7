"""Static and padded batches: groups, waiting for company, kept slots, what idle slots cost."""

from __future__ import annotations

import heapq
from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Driver
from cbatch.engine import Engine, FakeRunner
from cbatch.errors import UsageError
from cbatch.feed import Arrivals
from cbatch.metrics import Attribution
from cbatch.sampling import SamplingParams
from cbatch.types import Job, Request, RequestOutput, RowRef, StepRecord
from tests.test_driver import Recorder

MS = 1_000_000


def job(number: int, output: int, arrival_ns: int = 0, prompt: int = 1) -> Job:
    sampling = SamplingParams(max_tokens=output)
    request = Request(str(number), np.ones(prompt, np.int32), sampling, arrival_ns=arrival_ns)
    return RowRef(number, str(number), "", arrival_ns), request


def play(
    jobs: list[Job],
    batching: str,
    *,
    slots: int,
    wait_ns: int = 0,
    cost_ns: Callable[[int, int], int] = lambda _d, _p: MS,
    cells: int = 1000,
    faults: dict[str, int] | None = None,
) -> Recorder:
    clock = VirtualClock()
    runner = FakeRunner(max_num_seqs=slots, cells_per_seq=cells, clock=clock, cost_ns=cost_ns, faults=faults)
    config = SchedulerConfig(slots, batching=batching, static_wait_ns=wait_ns)
    engine = Engine(runner, config)
    feed, seen = Arrivals(jobs, clock), Recorder()
    seen.after_step = engine.check_integrity
    Driver(engine, feed, [feed, seen], max_cells=cells).run()
    engine.check_integrity()
    assert not engine.has_work
    return seen


def utilisation(steps: list[StepRecord]) -> float:
    return sum(step.slots_busy for step in steps) / sum(step.slots_total for step in steps)


def admitted(seen: Recorder) -> dict[str, int | None]:
    return {name: output.admitted_ns for name, output in sorted(seen.outputs.items())}


def test_the_example_of_the_literature() -> None:
    """Outputs of 50, 10 and 80 tokens in one group: 140 busy slot-steps of 240. With work waiting no slot is idle."""
    static = play([job(n, output) for n, output in enumerate((50, 10, 80))], "static", slots=3)
    assert utilisation(static.steps) == pytest.approx(140 / 240)
    assert len(static.steps) == 80
    waiting = [job(n, output) for n, output in enumerate((50, 10, 80, 70, 30))]
    continuous = play(waiting, "continuous", slots=3)
    assert utilisation(continuous.steps) == 1
    assert len(continuous.steps) == 80


def test_a_group_enters_together_and_the_next_when_its_slowest_has_ended() -> None:
    seen = play([job(n, output) for n, output in enumerate((2, 5, 1, 1))], "static", slots=2)
    assert admitted(seen) == {"0": 0, "1": 0, "2": 5 * MS, "3": 5 * MS}


def test_a_group_waits_for_company_until_it_is_full() -> None:
    jobs = [job(0, 1), job(1, 1, 3 * MS), job(2, 1, 4 * MS), job(3, 1, 9 * MS)]
    seen = play(jobs, "static", slots=3, wait_ns=10 * MS)
    assert admitted(seen) == {"0": 4 * MS, "1": 4 * MS, "2": 4 * MS, "3": 19 * MS}


def test_without_a_wait_who_is_there_enters() -> None:
    seen = play([job(0, 3), job(1, 1, 1), job(2, 1, 2)], "static", slots=3)
    assert admitted(seen) == {"0": 0, "1": 3 * MS, "2": 3 * MS}


def test_idle_slots_cost_nothing_in_a_static_batch_and_a_token_a_step_in_a_padded_one() -> None:
    def cost(decodes: int, prompts: int) -> int:
        return MS * (decodes + prompts)

    jobs = [job(n, output) for n, output in enumerate((2, 6))]
    static, padded = (play(list(jobs), batching, slots=2, cost_ns=cost) for batching in ("static", "padded"))
    assert static.steps[-1].end_ns == (2 * 2 + 4) * MS
    assert padded.steps[-1].end_ns == 2 * 6 * MS
    assert [step.padding_seqs for step in padded.steps] == [0, 0, 1, 1, 1, 1]
    assert [step.output_tokens for step in padded.steps] == [2, 2, 1, 1, 1, 1]
    assert [step.slots_busy for step in padded.steps] == [2, 2, 1, 1, 1, 1]
    tokens = {name: output.token_ids.tolist() for name, output in static.outputs.items()}
    assert tokens == {name: output.token_ids.tolist() for name, output in padded.outputs.items()}


def test_reserved_cells_stay_reserved_until_the_group_ends() -> None:
    static = play([job(0, 2), job(1, 6)], "static", slots=2)
    assert {step.kv_reserved_cells for step in static.steps} == {2 + 6}
    padded = play([job(0, 2), job(1, 6)], "padded", slots=2, cells=10)
    assert {step.kv_reserved_cells for step in padded.steps} == {2 * 10}


def test_padding_ends_where_its_cells_do() -> None:
    padded = play([job(0, 1, prompt=6), job(1, 9)], "padded", slots=2, cells=10)
    assert [step.padding_seqs for step in padded.steps] == [0, 1, 1, 1, 1, 0, 0, 0, 0]


def test_a_sequence_that_fails_costs_its_group_nothing() -> None:
    for batching in ("static", "padded"):
        seen = play([job(n, 5) for n in range(4)], batching, slots=2, faults={"1": 3})
        reasons = {name: output.finish_reason.value for name, output in sorted(seen.outputs.items())}
        assert reasons == {"0": "length", "1": "error", "2": "length", "3": "length"}


def test_batching_is_checked() -> None:
    with pytest.raises(UsageError, match="batching is 'dynamic'"):
        SchedulerConfig(batching="dynamic")
    with pytest.raises(UsageError, match="static-wait is -1"):
        SchedulerConfig(static_wait_ns=-MS)


@given(
    st.lists(st.tuples(st.integers(0, 5 * MS), st.integers(1, 9), st.integers(1, 5)), min_size=1, max_size=25),
    st.sampled_from(["continuous", "static", "padded"]),
    st.integers(1, 4),
    st.integers(0, 6 * MS),
)
@settings(max_examples=200)
def test_every_rule_serves_all_with_the_same_tokens(
    load: list[tuple[int, int, int]], batching: str, slots: int, wait_ns: int
) -> None:
    arrivals = np.cumsum([gap for gap, _, _ in load]).tolist()
    jobs = [job(n, output, at, prompt) for n, ((_, output, prompt), at) in enumerate(zip(load, arrivals, strict=True))]
    seen = play(list(jobs), batching, slots=slots, wait_ns=0 if batching == "continuous" else wait_ns)
    assert len(seen.outputs) == len(jobs)
    for output in seen.outputs.values():
        parts = Attribution.of(output)
        assert min(parts) >= 0
        assert sum(parts) == output.finished_ns - output.request.arrival_ns
    if batching != "continuous":
        check_groups(list(seen.outputs.values()), slots)


def check_groups(outputs: list[RequestOutput], slots: int) -> None:
    """Those admitted at one time are a group: at most as many as slots, and disjoint in time from every other."""
    groups: dict[int, list[RequestOutput]] = {}
    for output in outputs:
        assert output.admitted_ns is not None
        groups.setdefault(output.admitted_ns, []).append(output)
    end = 0
    for begin, group in sorted(groups.items()):
        assert len(group) <= slots
        assert begin >= end
        end = max(output.finished_ns for output in group)


def test_kept_slots_are_given_up_for_the_last_that_runs_where_memory_is_short() -> None:
    for batching in ("static", "padded"):
        runner = FakeRunner(max_num_seqs=2, cells_per_seq=200, total_cells=200)
        engine = Engine(runner, SchedulerConfig(2, batching=batching, kv_overcommit=True))
        for number, output in enumerate((30, 180, 20)):
            engine.add(Request(str(number), np.ones(1, np.int32), SamplingParams(max_tokens=output)))
        outputs = []
        while engine.has_work:
            outputs += engine.step()
            engine.check_integrity()
        assert [(output.id, output.preemptions) for output in outputs] == [("0", 0), ("1", 0), ("2", 0)]


def test_what_continuous_batching_is_worth_where_a_step_costs_the_same_for_any_batch() -> None:
    """Makespans of 2,000 requests on 32 slots, against sums over their lengths: exponential, redrawn above 12 means."""
    slots, mean = 32, 20
    lengths = exponential(2000, mean, cap=12 * mean)
    static = sum(max(lengths[n : n + slots]) for n in range(0, len(lengths), slots))
    continuous = list_schedule(lengths, slots)
    spans = {
        batching: play([job(n, length) for n, length in enumerate(lengths)], batching, slots=slots).steps[-1].end_ns
        for batching in ("static", "continuous")
    }
    assert spans["static"] / spans["continuous"] == pytest.approx(static / continuous, rel=0.02)
    assert static / continuous > 3  # the mean of the largest of 32 exponentials is 4.06 means


def exponential(count: int, mean: float, cap: int) -> list[int]:
    """Lengths of at least 1, those above the cap drawn again."""
    rng = np.random.default_rng(0)
    drawn = np.ceil(rng.exponential(mean, 4 * count)).astype(int)
    lengths: list[int] = drawn[drawn <= cap][:count].tolist()
    return lengths


def list_schedule(lengths: list[int], slots: int) -> int:
    """When the last ends, if each begins as soon as a slot is free."""
    free = [0] * slots
    for length in lengths:
        heapq.heapreplace(free, free[0] + length)
    return max(free)
