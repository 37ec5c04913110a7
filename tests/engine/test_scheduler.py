"""What runs in each step: admission, chunking, budget, refill, priorities, cancellation, failures."""

from __future__ import annotations

import pytest

from cbatch.engine import FakeRunner
from cbatch.errors import ParameterError, UsageError
from cbatch.types import FinishReason
from tests.engine.factories import engine, request


def test_a_request_takes_one_step_for_its_prompt_and_one_a_token() -> None:
    batch, runner = engine()
    batch.add(request("a", prompt=4, max_tokens=3))
    outputs = list(batch)
    assert [output.id for output in outputs] == ["a"]
    assert [len(plan.prefills) for plan in runner.plans] == [1, 0, 0]
    assert [len(plan.decodes) for plan in runner.plans] == [0, 1, 1]
    assert outputs[0].finish_reason is FinishReason.LENGTH
    assert outputs[0].token_ns.tolist() == [1_000_000, 2_000_000, 3_000_000]
    assert outputs[0].admitted_ns == 0


def test_decodes_come_first_and_prompts_share_the_rest_of_the_budget() -> None:
    batch, runner = engine(max_num_batched_tokens=8)
    batch.add(request("a", prompt=2, max_tokens=9))
    batch.step()
    batch.add(request("b", prompt=5))
    batch.add(request("c", prompt=5))
    batch.step()
    plan = runner.plans[-1]
    assert [work.seq.id for work in plan.decodes] == ["a"]
    assert [(work.seq.id, work.start, work.length) for work in plan.prefills] == [("b", 0, 5), ("c", 0, 2)]
    batch.step()
    assert [(work.seq.id, work.length) for work in runner.plans[-1].prefills] == [("c", 3)]


def test_prefill_chunk_bounds_each_sequence() -> None:
    batch, runner = engine(prefill_chunk=3)
    batch.add(request("a", prompt=7, max_tokens=1))
    list(batch)
    assert [work.length for plan in runner.plans for work in plan.prefills] == [3, 3, 1]


def test_whole_prompts_wait_for_a_step_with_room_and_nobody_overtakes() -> None:
    batch, runner = engine(max_num_batched_tokens=8, whole_prompts=True)
    for name, length in (("a", 5), ("b", 5), ("c", 2)):
        batch.add(request(name, prompt=length))
    list(batch)
    chunks = [[(work.seq.id, work.length) for work in plan.prefills] for plan in runner.plans]
    assert chunks[:2] == [[("a", 5)], [("b", 5), ("c", 2)]]
    assert [work.seq.id for work in runner.plans[1].decodes] == ["a"]


def test_a_whole_prompt_that_no_step_has_room_for_is_cut() -> None:
    batch, runner = engine(max_num_batched_tokens=8, whole_prompts=True)
    batch.add(request("a", prompt=3, max_tokens=1))
    batch.add(request("b", prompt=18, max_tokens=1))
    batch.add(request("c", prompt=4, max_tokens=1))
    list(batch)
    chunks = [[(work.seq.id, work.length) for work in plan.prefills] for plan in runner.plans]
    assert chunks == [[("a", 3)], [("b", 8)], [("b", 8)], [("b", 2), ("c", 4)]]


def test_whole_prompts_arent_chunks() -> None:
    with pytest.raises(UsageError, match="prefill_chunk is 3, and whole_prompts are wanted"):
        engine(prefill_chunk=3, whole_prompts=True)


def test_a_freed_slot_is_refilled_in_the_next_step_lowest_first() -> None:
    batch, runner = engine(max_num_seqs=2)
    for name, length in (("a", 1), ("b", 3), ("c", 2), ("d", 1)):
        batch.add(request(name, max_tokens=length))
    outputs = {output.id: output for output in batch}
    assert [len(plan.decodes) + len(plan.prefills) for plan in runner.plans] == [2, 2, 2, 1]
    assert {name: output.slot for name, output in outputs.items()} == {"a": 0, "b": 1, "c": 0, "d": 0}


def test_admission_goes_by_priority_then_arrival() -> None:
    batch, _ = engine(max_num_seqs=1)
    batch.add(request("late", arrival_ns=9, max_tokens=1))
    batch.add(request("early", arrival_ns=1, max_tokens=1))
    batch.add(request("urgent", arrival_ns=10, priority=-1, max_tokens=1))
    batch.add(request("early too", arrival_ns=1, max_tokens=1))
    assert [output.id for output in batch] == ["urgent", "early", "early too", "late"]


def test_end_tokens_stop_a_request_unless_it_ignores_them() -> None:
    runner = FakeRunner(max_num_seqs=1, next_token=lambda seq: 65 + seq.num_output)
    batch, _ = engine(runner, max_num_seqs=1)
    batch.add(request("a", max_tokens=9, end_tokens=frozenset({67})))
    batch.add(request("b", max_tokens=4))
    batch.add(request("c", max_tokens=9, stop_token_ids=(66,)))
    outputs = {output.id: output for output in batch}
    assert (outputs["a"].text, outputs["a"].finish_reason) == ("AB", FinishReason.STOP)
    assert outputs["a"].token_ids.tolist() == [65, 66, 67]
    assert (outputs["b"].text, outputs["b"].finish_reason) == ("ABCD", FinishReason.LENGTH)
    assert (outputs["c"].text, outputs["c"].finish_reason) == ("A", FinishReason.STOP)


def test_a_failing_sequence_leaves_its_neighbours_alone() -> None:
    runner = FakeRunner(max_num_seqs=2, faults={"b": 5})
    batch, _ = engine(runner, max_num_seqs=2)
    for name in "abc":
        batch.add(request(name))
    outputs = {output.id: output for output in batch}
    assert outputs["b"].finish_reason is FinishReason.ERROR
    assert outputs["b"].error == "fault injected"
    assert len(outputs["b"].token_ids) == 1
    assert outputs["a"].finish_reason is outputs["c"].finish_reason is FinishReason.LENGTH


def test_cancelling_waiting_and_running_requests() -> None:
    batch, _ = engine(max_num_seqs=1)
    batch.add(request("a", max_tokens=5))
    batch.add(request("b"))
    batch.add(request("c", max_tokens=1))
    batch.step()
    assert batch.cancel("b").finish_reason is FinishReason.CANCELLED
    cancelled = batch.cancel("a")
    assert cancelled.finish_reason is FinishReason.CANCELLED
    assert len(cancelled.token_ids) == 1
    batch.check_integrity()
    assert [output.id for output in batch] == ["c"]
    with pytest.raises(KeyError):
        batch.cancel("a")


def test_withdrawing_what_waits_keeps_what_runs() -> None:
    batch, _ = engine(max_num_seqs=1)
    for name in "abc":
        batch.add(request(name, max_tokens=2))
    batch.step()
    assert batch.cancel_waiting() == ["b", "c"]
    assert [output.id for output in batch] == ["a"]


def test_a_live_id_is_refused_and_a_finished_one_may_come_again() -> None:
    batch, _ = engine()
    batch.add(request("a", max_tokens=1))
    with pytest.raises(ParameterError, match="'a' is already"):
        batch.add(request("a"))
    list(batch)
    batch.add(request("a", max_tokens=1))
    assert [output.id for output in batch] == ["a"]


def test_a_shared_pool_admits_by_cells() -> None:
    runner = FakeRunner(max_num_seqs=4, cells_per_seq=20, total_cells=20)
    batch, _ = engine(runner)
    for name in "abc":
        batch.add(request(name, prompt=6, max_tokens=5))  # 10 cells each
    batch.step()
    assert batch.num_running == 2
    assert batch.last_step is not None
    assert batch.last_step.kv_reserved_cells == 20
    assert batch.last_step.kv_used_cells == 12
    assert len(list(batch)) == 3


def test_a_request_too_long_for_its_slot_drains_the_engine_and_grows_the_context() -> None:
    runner = FakeRunner(max_num_seqs=4, cells_per_seq=16, memory_cells=100)
    batch, _ = engine(runner)
    batch.add(request("a", prompt=8, max_tokens=4))
    batch.add(request("long", prompt=40, max_tokens=4))
    batch.add(request("b", prompt=8, max_tokens=4))
    outputs = [output.id for output in batch]
    assert outputs == ["a", "b", "long"] or outputs == ["a", "long", "b"]
    assert runner.capacity.cells_per_seq == 43
    assert runner.capacity.max_num_seqs == 2
    batch.check_integrity()


def test_a_request_too_long_for_the_memory_fails_alone() -> None:
    runner = FakeRunner(max_num_seqs=2, cells_per_seq=16, memory_cells=20)
    batch, _ = engine(runner, max_num_seqs=2)
    for name, prompt in (("a", 8), ("long", 40), ("b", 8)):
        batch.add(request(name, prompt=prompt))
    outputs = {output.id: output for output in batch}
    assert outputs["long"].finish_reason is FinishReason.ERROR
    assert "42 KV cells" in str(outputs["long"].error)
    assert outputs["a"].error is outputs["b"].error is None


def test_each_request_too_long_for_its_slot_has_its_own_chance_to_grow() -> None:
    runner = FakeRunner(max_num_seqs=2, cells_per_seq=16, memory_cells=100)
    batch, _ = engine(runner, max_num_seqs=2)
    for name, prompt in (("too long", 500), ("long", 60), ("longer", 90), ("short", 4)):
        batch.add(request(name, prompt=prompt))
    outputs = {output.id: output.error for output in batch}
    assert [name for name, error in outputs.items() if error is not None] == ["too long"]
    assert runner.capacity.cells_per_seq == 92


def test_configuration_is_checked() -> None:
    with pytest.raises(UsageError, match="every running sequence needs one token"):
        engine(max_num_batched_tokens=3)
    with pytest.raises(UsageError, match="max_num_seqs is 257"):
        engine(max_num_seqs=257)
    with pytest.raises(UsageError, match="prefill_chunk is 0"):
        engine(prefill_chunk=0)
