"""Properties of the engine under any load: no slot shared, no row lost, budget kept, integrity after each step."""

from __future__ import annotations

from dataclasses import dataclass

from hypothesis import given
from hypothesis import strategies as st

from cbatch.engine import FakeRunner
from cbatch.types import FinishReason, Request
from tests.engine.factories import alone, engine, request


@dataclass(frozen=True)
class Load:
    requests: list[Request]
    slots: int
    budget: int
    chunk: int | None
    whole: bool
    pool: int | None
    arrivals: list[int]


@st.composite
def loads(draw: st.DrawFn) -> Load:
    slots = draw(st.integers(1, 6))
    count = draw(st.integers(1, 12))
    requests = [
        request(
            str(i),
            prompt=draw(st.integers(1, 30)),
            max_tokens=draw(st.integers(1, 12)),
            priority=draw(st.integers(-1, 1)),
            end_tokens=frozenset(draw(st.sets(st.integers(97, 122), max_size=4))),
        )
        for i in range(count)
    ]
    chunk = draw(st.none() | st.integers(1, 9))
    return Load(
        requests,
        slots,
        budget=slots + draw(st.integers(0, 40)),
        chunk=chunk,
        whole=chunk is None and draw(st.booleans()),
        pool=draw(st.none() | st.integers(41, 120)),
        arrivals=sorted(draw(st.lists(st.integers(0, 30), min_size=count, max_size=count))),
    )


@given(loads())
def test_every_request_ends_once_with_the_tokens_it_would_have_alone(load: Load) -> None:
    cells = 41 if load.pool is None else load.pool
    runner = FakeRunner(max_num_seqs=load.slots, cells_per_seq=cells, total_cells=load.pool)
    config = {"max_num_batched_tokens": load.budget, "prefill_chunk": load.chunk, "whole_prompts": load.whole}
    batch, _ = engine(runner, max_num_seqs=load.slots, **config)
    pending = list(zip(load.arrivals, load.requests, strict=True))
    done = {}
    step = 0
    while pending or batch.has_work:
        while pending and pending[0][0] <= step:
            batch.add(pending.pop(0)[1])
        for output in batch.step():
            assert output.id not in done
            done[output.id] = output
        batch.check_integrity()
        step += 1
    assert done.keys() == {wanted.id for wanted in load.requests}
    for wanted in load.requests:
        assert done[wanted.id].token_ids.tolist() == alone(wanted)
        assert done[wanted.id].finish_reason in (FinishReason.STOP, FinishReason.LENGTH)


@given(loads())
def test_whole_prompts_are_computed_in_one_step_each(load: Load) -> None:
    runner = FakeRunner(max_num_seqs=load.slots)
    batch, _ = engine(runner, max_num_seqs=load.slots, max_num_batched_tokens=30 + load.budget, whole_prompts=True)
    for wanted in load.requests:
        batch.add(wanted)
    done = {}
    while batch.has_work:
        done.update({output.id: output.token_ids.tolist() for output in batch.step()})
        batch.check_integrity()
        assert not runner.plans[-1].empty
    works = [work for plan in runner.plans for work in plan.prefills]
    assert all(work.start == 0 for work in works)
    assert all(work.length >= work.seq.num_prompt for work in works)
    assert done == {wanted.id: alone(wanted) for wanted in load.requests}


@given(loads())
def test_every_plan_keeps_budget_and_slots(load: Load) -> None:
    runner = FakeRunner(max_num_seqs=load.slots)
    config = {"max_num_batched_tokens": load.budget, "prefill_chunk": load.chunk, "whole_prompts": load.whole}
    batch, _ = engine(runner, max_num_seqs=load.slots, preempt="off", **config)
    for wanted in load.requests:
        batch.add(wanted)
    while batch.has_work:
        waiting = batch.num_waiting
        batch.step()
        plan = runner.plans[-1]
        works = [*plan.decodes, *plan.prefills]
        assert len({id(work.seq) for work in works}) == len(works)
        assert sum(work.length for work in works) <= load.budget
        assert all(work.length <= (load.chunk or load.budget) for work in plan.prefills)
        assert batch.last_step is not None
        # work-conserving: no slot stays empty while somebody waits
        assert batch.last_step.slots_busy == load.slots or batch.last_step.waiting == 0
        assert len(plan.admitted) == waiting - batch.last_step.waiting
    prefilled = sum(work.length for plan in runner.plans for work in plan.prefills)
    assert prefilled == sum(int(wanted.prompt.size) for wanted in load.requests)
