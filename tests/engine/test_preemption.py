"""Priority: who displaces whom, what it costs them, and that nobody waits for ever."""

from __future__ import annotations

import numpy as np

from cbatch.clock import VirtualClock
from cbatch.engine import FakeRunner
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.engine.factories import engine, request

S = 1_000_000_000


def test_a_higher_priority_displaces_the_lowest_admitted_last() -> None:
    batch, runner = engine(max_num_seqs=3)
    for name, priority in (("old", 1), ("plain", 0), ("late", 1)):
        batch.add(request(name, max_tokens=9, priority=priority))
    batch.step()
    batch.add(request("urgent", max_tokens=2, priority=-1))
    batch.step()
    assert [seq.id for seq in runner.plans[-1].preempted] == ["late"]
    assert batch.last_step is not None
    assert batch.last_step.preempted == 1
    outputs = {output.id: output for output in batch}
    assert outputs["late"].preemptions == 1
    assert outputs["late"].times.preempted_ns == 2_000_000  # the two steps of the urgent one
    assert outputs["late"].token_ids.size == 9
    assert outputs["old"].preemptions == 0


def test_equal_priorities_displace_nobody() -> None:
    batch, runner = engine(max_num_seqs=1)
    batch.add(request("first", max_tokens=5))
    batch.step()
    batch.add(request("second", max_tokens=5))
    assert [output.id for output in batch] == ["first", "second"]
    assert not any(plan.preempted for plan in runner.plans)


def test_swapped_work_isn_t_computed_again_and_recomputed_work_is() -> None:
    for preempt, computed in (("swap", 20 + 4), ("recompute", 20 + 4 + 23)):
        batch, runner = engine(max_num_seqs=1, preempt=preempt)
        batch.add(request("low", prompt=20, max_tokens=6, priority=1))
        for _ in range(3):
            batch.step()
        batch.add(request("high", prompt=4, max_tokens=1))
        outputs = {output.id: output for output in batch}
        assert outputs["low"].preemptions == 1
        assert sum(work.length for plan in runner.plans for work in plan.prefills) == computed


def test_who_was_let_in_in_a_step_gives_way_to_nobody_in_it() -> None:
    batch, runner = engine(max_num_seqs=2, prefix_cache_bytes=1 << 20, group_prefixes=True)
    shared = list(range(200))

    def add(name: str, prompt: list[int], priority: int, arrival_s: int) -> None:
        sampling = SamplingParams(max_tokens=4)
        batch.add(Request(name, np.array(prompt), sampling, priority=priority, arrival_ns=arrival_s * S))

    add("first", [*shared, 1, 2], 1, 0)
    add("second", [*shared, 3, 4], 1, 0)
    batch.step()
    add("head", list(range(1000, 1100)), 1, 1)
    add("of their group", [*shared, 5, 6], 1, 100)
    add("urgent by now", list(range(3000, 3100)), 0, 350)
    outputs = list(batch)
    assert len(outputs) == 5
    assert all(output.error is None for output in outputs)
    entered = [{seq.id for seq in plan.admitted} for plan in runner.plans]
    assert {"of their group", "head"} in entered
    preempted = [{seq.id for seq in plan.preempted} for plan in runner.plans]
    assert not any(came & went for came, went in zip(entered, preempted, strict=True))


def test_off_lets_everybody_finish() -> None:
    batch, _ = engine(max_num_seqs=1, preempt="off")
    batch.add(request("low", max_tokens=5, priority=1))
    batch.step()
    batch.add(request("high", max_tokens=1))
    assert [output.id for output in batch] == ["low", "high"]


def test_a_low_row_finishes_under_endless_high_arrivals() -> None:
    clock = VirtualClock()
    runner = FakeRunner(max_num_seqs=1, clock=clock, keep_plans=False)
    batch, _ = engine(runner, max_num_seqs=1, ageing_ns=S)
    batch.add(request("low", max_tokens=20, priority=1))
    for number in range(10_000):  # a new one before the last has ended, all the time
        batch.add(request(f"high {number}", max_tokens=3, priority=0, arrival_ns=clock.now_ns()))
        if any(output.id == "low" for output in batch.step() + batch.step()):
            break
    assert S <= clock.now_ns() < 2 * S  # it had to age by one step of priority, and then nobody displaced it


def test_who_has_aged_is_not_displaced() -> None:
    batch, _ = engine(max_num_seqs=1, ageing_ns=S)
    batch.add(request("low", max_tokens=5, priority=1))
    batch.step()
    batch.add(request("high", max_tokens=1, priority=0, arrival_ns=2 * S))
    assert [output.id for output in batch] == ["low", "high"]


def test_a_pool_too_small_for_all_they_may_need_serves_all_by_preemption() -> None:
    runner = FakeRunner(max_num_seqs=8, cells_per_seq=400, total_cells=400)  # worst case 8 x 259
    batch, _ = engine(runner, max_num_seqs=8, kv_overcommit=True)
    for i in range(8):
        batch.add(request(str(i), prompt=60, max_tokens=200))
    outputs = []
    while batch.has_work:
        outputs += batch.step()
        batch.check_integrity()
    assert all(output.token_ids.size == 200 for output in outputs)
    assert sum(output.preemptions for output in outputs) > 0


def test_without_overcommit_the_same_pool_serves_one_at_a_time() -> None:
    runner = FakeRunner(max_num_seqs=8, cells_per_seq=400, total_cells=400)
    batch, _ = engine(runner, max_num_seqs=8)
    for i in range(8):
        batch.add(request(str(i), prompt=60, max_tokens=200))
    assert len(list(batch)) == 8
    assert max(len(plan.decodes) for plan in runner.plans) == 1
