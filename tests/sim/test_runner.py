from __future__ import annotations

from itertools import pairwise
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.config import ContextConfig
from cbatch.engine.runner import Move, StepPlan, Work
from cbatch.engine.sequence import Sequence as Generation
from cbatch.sim.costs import StepCostModel
from cbatch.sim.runner import SimulatedRunner
from cbatch.types import FinishReason, Request
from tests.engine.factories import request
from tests.engine.test_properties import Load, loads
from tests.sim.recording import COSTS, play

MS = 1_000_000
FLAT = StepCostModel(knots=(0, 1), weights_ns=(MS, MS))
"""Every ubatch takes 1 ms, and nothing else takes any time."""


def times_ms(requests: list[Request], costs: StepCostModel = FLAT, **options: Any) -> dict[str, list[float]]:
    """When each request's tokens came."""
    return {ref.id: (output.token_ns / MS).tolist() for ref, output in play(requests, costs=costs, **options).outputs}


def test_a_request_alone_takes_a_ubatch_a_token() -> None:
    assert times_ms([request("a", 10, 3)]) == {"a": [1, 2, 3]}


def test_prompts_of_neighbours_share_a_call_and_differing_lengths_cut_it() -> None:
    # prompts of 10 and 6 tokens: 6 of each, then 4; then both decode in one ubatch
    assert times_ms([request("a", 10, 2), request("b", 6, 2)]) == {"a": [2, 3], "b": [2, 3]}


def test_one_that_arrives_later_waits_for_the_step_that_runs() -> None:
    found = times_ms([request("a", 4, 5), request("b", 4, 2, arrival_ns=MS // 2)])
    # steps: a's prompt; a decodes, then b's prompt; both decode; a alone
    assert found == {"a": [1, 2, 4, 5, 6], "b": [3, 4]}


def test_a_pool_takes_one_mixed_call() -> None:
    context = ContextConfig(max_num_seqs=4, cells_per_seq=256, kv_mode="unified")
    found = times_ms([request("a", 4, 3), request("b", 600, 2, arrival_ns=MS // 2)], context=context)
    # a's decode and b's 600 tokens are 601, two ubatches; a's token and b's come at the end of the call
    assert found == {"a": [1, 3, 4], "b": [3, 4]}


def test_idle_time_passes_at_once() -> None:
    found = times_ms([request("a", 4, 1), request("b", 4, 1, arrival_ns=3_600_000 * MS)])
    assert found == {"a": [1], "b": [3_600_001]}


def test_what_is_around_calls_takes_its_time_too() -> None:
    costs = StepCostModel((0, 1), (MS, MS), step_ns=MS / 2, running_ns=MS / 8, sampling_ns=MS / 4, sampled_ns=MS / 8)
    # a step of one: 0.5 + 0.125 before the call, 0.25 + 0.125 of sampling after it
    assert times_ms([request("a", 4, 2)], costs) == {"a": [2, 4]}
    step = play([request("a", 4, 2)], costs=costs).steps[0]
    assert (step.prefill_call_ns, step.sample_ns, step.end_ns - step.start_ns) == (MS, 0.375 * MS, 2 * MS)


def test_gaps_between_slots_cost_a_ubatch_unless_they_are_closed() -> None:
    costs = StepCostModel((0, 1), (MS, MS), save_ns=1, restore_ns=1)
    requests = [request("a", 4, 2), request("b", 4, 20), request("c", 4, 3), request("d", 4, 20)]
    found = play(requests, costs=costs).steps
    assert sum(step.moved for step in found) == 1
    assert max(step.decode_call_ns for step in found) == MS
    kept = play(requests, costs=costs, compact=False).steps
    assert [step.decode_call_ns for step in kept][:5] == [0, MS, MS, 2 * MS, 2 * MS]


def test_a_prompt_that_is_moved_before_it_is_computed_waits_a_step_as_it_really_does() -> None:
    costs = StepCostModel((0, 1), (MS, MS))
    runner = SimulatedRunner(costs, ContextConfig(max_num_seqs=2, cells_per_seq=256))
    seq = Generation(request("a", 1, 2), 0)
    seq.slot = 0
    result = runner.run(StepPlan(0, (), (), (Work(seq, 0, 1),), moves=(Move(seq, 1),)))
    assert (result.rewound, result.calls, result.sampled) == ({seq: 0}, [], [])
    assert len(runner.run(StepPlan(1, (), (), (Work(seq, 0, 1),))).sampled) == 1


def test_what_has_lost_its_tokens_cant_be_moved() -> None:
    runner = SimulatedRunner(FLAT, ContextConfig(max_num_seqs=2, cells_per_seq=256))
    seq = Generation(request("a", 4, 2), 0)
    seq.slot, seq.num_computed = 0, 4
    with pytest.raises(AssertionError, match="a is moved from slot 1, which has lost its KV"):
        runner.run(StepPlan(0, (), (Work(seq, 4, 1),), (), moves=(Move(seq, 1),)))


def test_swapped_and_restored_tokens_cost_what_copies_do() -> None:
    costs = StepCostModel((0, 1), (MS, MS), save_ns=1000, restore_ns=100)
    low, high = request("low", 10, 9, priority=1), request("high", 10, 2, priority=-1, arrival_ns=3 * MS - 1)
    found = play([low, high], costs=costs, context=ContextConfig(max_num_seqs=1, cells_per_seq=256))
    steps = found.steps
    assert sum(step.preempted for step in steps) == 1
    assert sum(step.save_ns for step in steps) == 12 * 1000  # its prompt and two of three tokens
    assert sum(step.restore_ns for step in steps) == 12 * 100


def test_shared_prefixes_are_restored_from_copies_or_shared_in_a_pool() -> None:
    costs = StepCostModel((0, 1, 1000), (MS, 2 * MS, 1000 * MS), save_ns=1000, restore_ns=1000)
    requests = [request(str(i), 100, 3, arrival_ns=i * 1000 * MS) for i in range(4)]
    keep: dict[str, Any] = {"prefix_cache_bytes": 1 << 30, "keep_prefixes": True}
    split = play(requests, costs=costs, **keep).steps
    assert sum(step.restored_tokens for step in split) == 3 * 99
    assert sum(step.restore_ns for step in split) == 3 * 100 * 1000
    pool = ContextConfig(max_num_seqs=4, cells_per_seq=256, kv_mode="unified")
    unified = play(requests, costs=costs, context=pool, **keep).steps
    assert sum(step.restored_tokens for step in unified) == 3 * 99
    assert sum(step.restore_ns + step.save_ns for step in unified) == 0


def test_outgrown_contexts_shift() -> None:
    long = request("a", 10, 600)
    bounded = Request(long.id, long.prompt, long.sampling, max_cells=256)
    context = ContextConfig(max_num_seqs=1, cells_per_seq=256)
    found = play([bounded], costs=FLAT, context=context, share_cells=False, check=True)
    _, output = found.outputs[0]
    assert output.token_ids.size == 600
    assert output.dropped_tokens > 0


schedulers = st.fixed_dictionaries(
    {
        "batching": st.sampled_from(["continuous", "static"]),
        "preempt": st.sampled_from(["swap", "recompute", "off"]),
        "prefix_cache_bytes": st.sampled_from([0, 500, 1 << 30]),
        "keep_prefixes": st.booleans(),
        "compact": st.booleans(),
    }
)


@given(loads(), schedulers, st.booleans())
def test_any_load_keeps_the_engines_integrity(load: Load, scheduler: dict[str, Any], unified: bool) -> None:
    kv_mode = "unified" if unified else "split"
    context = ContextConfig(max_num_seqs=load.slots, cells_per_seq=256, kv_mode=kv_mode)
    timed = [
        Request(wanted.id, wanted.prompt, wanted.sampling, wanted.priority, arrival_ns=at * 3 * MS)
        for wanted, at in zip(load.requests, load.arrivals, strict=True)
    ]
    options = {**scheduler, "max_num_batched_tokens": load.budget, "prefill_chunk": load.chunk}
    found = play(timed, costs=COSTS, context=context, check=True, **options)
    assert sorted(ref.id for ref, _ in found.outputs) == sorted(wanted.id for wanted in timed)
    for _, output in found.outputs:
        assert output.finish_reason is FinishReason.LENGTH
        assert output.token_ids.size == output.request.sampling.max_tokens
    assert all(before.end_ns <= after.start_ns for before, after in pairwise(found.steps))


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_two_simulations_are_the_same(kv_mode: str) -> None:
    context = ContextConfig(max_num_seqs=3, cells_per_seq=256, kv_mode=kv_mode)
    requests = [request(str(i), 5 + 7 * i % 40, 3 + i % 5, arrival_ns=i * MS) for i in range(20)]
    assert times_ms(requests, COSTS, context=context) == times_ms(requests, COSTS, context=context)
