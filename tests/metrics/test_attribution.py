"""The attribution of a request's time: exact on small numbers, and against a recount on random schedules."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.engine.runner import StepPlan
from cbatch.metrics import Attribution
from cbatch.sampling import SamplingParams
from cbatch.types import CallRecord, Request, RequestOutput, TimeSplit
from tests.metrics.factories import make_output


def test_the_parts_on_small_numbers() -> None:
    output = make_output([20, 30], arrival_ns=1, enqueued_ns=3, admitted_ns=7, times=TimeSplit(5, 4, 3, 2, 1))
    parts = Attribution.of(output)
    assert parts == (2, 4, 5, 4, 3, 2, 1, 8)
    assert parts._fields[:2] == ("slip_ns", "queue_ns")
    assert sum(parts) == 29 == output.finished_ns - output.request.arrival_ns


def test_a_request_that_never_got_a_slot_has_queued_all_along() -> None:
    assert Attribution.of(make_output(arrival_ns=1, enqueued_ns=2, finished_ns=9)) == (1, 7, 0, 0, 0, 0, 0, 0)


@dataclass
class Load:
    """A random virtual schedule."""

    requests: list[tuple[int, int, int, int]]
    """(gap ns, prompt tokens, output tokens, priority)."""
    slots: int
    budget: int
    chunk: int | None
    split: bool
    faults: dict[str, int]
    costs: tuple[int, int, int]


@st.composite
def loads(draw: st.DrawFn) -> Load:
    small = st.integers(0, 40)
    requests = draw(st.lists(st.tuples(small, st.integers(1, 9), st.integers(1, 6), st.integers(0, 2)), max_size=12))
    slots = draw(st.integers(1, 4))
    faults = draw(st.dictionaries(st.integers(0, 11).map(str), st.integers(1, 9), max_size=2))
    costs = draw(st.tuples(small, small, small))
    return Load(
        requests,
        slots,
        draw(st.integers(slots, 12)),
        draw(st.none() | st.integers(1, 5)),
        draw(st.booleans()),
        faults,
        costs,
    )


class Spells:
    """When each request had no slot after having had one, ns."""

    def __init__(self) -> None:
        self.of: dict[str, list[tuple[int, int]]] = {}
        self._since: dict[str, int] = {}

    def step(self, plan: StepPlan, start_ns: int) -> None:
        for seq in plan.preempted:
            self._since[seq.id] = start_ns
        for seq in plan.admitted:
            if seq.id in self._since:
                self.of.setdefault(seq.id, []).append((self._since.pop(seq.id), start_ns))


def simulate(load: Load) -> tuple[list[RequestOutput], list[CallRecord], Spells]:
    """Release requests at their times, possibly late, on an engine whose clock also runs between steps."""
    clock = VirtualClock()
    base, per_decode, per_prompt = load.costs
    runner = FakeRunner(
        max_num_seqs=load.slots,
        clock=clock,
        cost_ns=lambda decodes, prompts: base + per_decode * decodes + per_prompt * prompts,
        split_calls=load.split,
        faults=load.faults,
    )
    engine = Engine(runner, SchedulerConfig(load.slots, load.budget, load.chunk))
    arrivals = np.cumsum([gap for gap, *_ in load.requests]).tolist()
    outputs: list[RequestOutput] = []
    calls: list[CallRecord] = []
    spells = Spells()

    def step() -> list[RequestOutput]:
        ended = engine.step()
        if engine.last_step is not None:
            calls.extend(engine.last_step.call_log)
            spells.step(runner.plans[-1], engine.last_step.start_ns)
        clock.advance(3)  # what the loop does between two steps
        return ended

    for number, (_, prompt, output, priority) in enumerate(load.requests):
        clock.advance(max(0, arrivals[number] - clock.now_ns()))
        sampling = SamplingParams(max_tokens=output)
        request = Request(str(number), np.ones(prompt, np.int32), sampling, priority, arrivals[number])
        engine.add(request)
        outputs += step()
    while engine.has_work:
        outputs += step()
    return outputs, calls, spells


def recount(
    output: RequestOutput, calls: list[CallRecord], spells: list[tuple[int, int]]
) -> tuple[int, int, int, int, int]:
    """(prefill, decode, others' prefill, others' decode, preempted), by looking at every call while it had a slot."""
    assert output.admitted_ns is not None
    own, others = {"prefill": 0, "decode": 0}, {"prefill": 0, "decode": 0}
    last = max((call.start_ns for call in calls if any(c.id == output.id for c in call.computed)), default=0)
    for call in calls:
        if call.start_ns < output.admitted_ns or call.start_ns > last:
            continue
        if any(since <= call.start_ns < until for since, until in spells):
            continue
        mine = {c.phase for c in call.computed if c.id == output.id}
        tokens = sum(c.length for c in call.computed)
        duration = call.end_ns - call.start_ns
        decode = duration * sum(c.length for c in call.computed if c.phase == "decode") // tokens
        for phase, part in (("decode", decode), ("prefill", duration - decode)):
            (own if phase in mine else others)[phase] += part
    preempted = sum(until - since for since, until in spells)
    return own["prefill"], own["decode"], others["prefill"], others["decode"], preempted


@given(loads())
@settings(max_examples=200)
def test_the_parts_add_up_exactly_and_match_a_recount(load: Load) -> None:
    outputs, calls, spells = simulate(load)
    assert len(outputs) == len(load.requests)
    for output in outputs:
        parts = Attribution.of(output)
        assert sum(parts) == output.finished_ns - output.request.arrival_ns
        assert min(parts) >= 0
        if output.error is None:
            assert recount(output, calls, spells.of.get(output.id, [])) == parts[2:7]
