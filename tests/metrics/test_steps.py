from __future__ import annotations

import pytest

from cbatch.metrics.steps import StepTotals
from tests.metrics.factories import make_step


def totals(*records: dict[str, int]) -> StepTotals:
    found = StepTotals()
    for record in records:
        found.add(make_step(**record))
    return found


def test_engine_time_spans_all_steps() -> None:
    assert totals({"start_ns": 5, "end_ns": 8}, {"start_ns": 10, "end_ns": 17}).engine_ns == 12


def test_llama_share_counts_every_kind_of_call_and_the_gaps_between_steps() -> None:
    found = totals(
        {"start_ns": 0, "end_ns": 8, "decode_call_ns": 3, "prefill_call_ns": 2, "mixed_call_ns": 1},
        {"start_ns": 12, "end_ns": 20, "decode_call_ns": 8},
    )
    assert found.llama_share == 14 / 20


def test_scheduler_time_is_a_mean_over_steps() -> None:
    assert totals({"schedule_ns": 3}, {"schedule_ns": 4}).schedule_ns_per_step == 3.5


def test_token_rates_divide_by_the_time_in_calls_of_their_kind() -> None:
    found = totals(
        {"prefill_tokens": 6, "decode_seqs": 4, "prefill_call_ns": 2, "decode_call_ns": 7, "mixed_call_ns": 1}
    )
    assert found.prefill_tokens_per_s == pytest.approx(2e9)
    assert found.decode_tokens_per_s == pytest.approx(0.5e9)


def test_concurrency_weighs_by_time_and_counts_what_ran_on_between_steps() -> None:
    found = totals(
        {"start_ns": 0, "end_ns": 4, "slots_busy": 3, "finished": 1},
        {"start_ns": 6, "end_ns": 10, "slots_busy": 2, "finished": 2},
        {"start_ns": 20, "end_ns": 21, "slots_busy": 5},
    )
    assert found.concurrency == (3 * 4 + 2 * 2 + 2 * 4 + 0 * 10 + 5 * 1) / 21


def test_concurrency_survives_waiting_requests_that_fail() -> None:
    found = totals(
        {"start_ns": 0, "end_ns": 1, "slots_busy": 0, "finished": 3}, {"start_ns": 9, "end_ns": 10, "slots_busy": 1}
    )
    assert found.concurrency == 1 / 10


def test_slot_utilisation_is_over_slot_steps_not_time() -> None:
    found = totals({"slots_busy": 4, "slots_total": 4, "end_ns": 100}, {"slots_busy": 1, "slots_total": 4})
    assert found.slot_utilisation == 5 / 8


def test_kv_utilisation_weighs_by_time() -> None:
    found = totals(
        {"start_ns": 0, "end_ns": 3, "kv_used_cells": 10, "kv_reserved_cells": 40},
        {"start_ns": 3, "end_ns": 4, "kv_used_cells": 30, "kv_reserved_cells": 40},
    )
    assert found.kv_utilisation == 60 / 160
    assert found.kv_waste == 1 - 60 / 160


def test_prompt_tokens_restored_save_what_computing_them_would_have_taken() -> None:
    found = totals(
        {"prefill_tokens": 6, "prefill_call_ns": 30, "restored_tokens": 10, "restore_ns": 7, "ideal_tokens": 20},
        {"prefill_tokens": 2, "decode_seqs": 1, "padding_seqs": 1, "mixed_call_ns": 20, "save_ns": 5, "preempted": 1},
        {"restored_tokens": 4, "restore_ns": 1, "ideal_tokens": 4, "preempted": 2, "moved": 3},
    )
    assert found.saved_ns == 14 * (30 + 20 * 2 / 4) / 8 - 7 - 1 - 5
    assert (found.restored_tokens, found.ideal_tokens) == (14, 24)
    assert (found.restore_ns, found.save_ns) == (8, 5)
    assert (found.preempted, found.moved) == (3, 3)


def test_prefix_hit_rates_are_of_all_prompt_tokens() -> None:
    found = totals(
        {"prefill_tokens": 6, "restored_tokens": 3, "ideal_tokens": 4}, {"prefill_tokens": 1, "ideal_tokens": 1}
    )
    assert found.prefix_hit_rate == 3 / 10
    assert found.ideal_prefix_hit_rate == 5 / 10


def test_restoring_that_takes_longer_than_computing_has_saved_less_than_nothing() -> None:
    assert totals({"prefill_tokens": 1, "prefill_call_ns": 2, "restored_tokens": 1, "restore_ns": 3}).saved_ns == -1


def test_restore_share_is_of_engine_time() -> None:
    found = totals({"start_ns": 0, "end_ns": 6, "restore_ns": 1}, {"start_ns": 8, "end_ns": 10, "restore_ns": 2})
    assert found.restore_share == 3 / 10


def test_without_steps_nothing_is_made_up() -> None:
    found = totals()
    assert found.engine_ns == 0
    assert found.llama_share is None
    assert found.schedule_ns_per_step is None
    assert found.concurrency is None
    assert found.slot_utilisation is None
    assert found.kv_waste is None
    assert found.prefill_tokens_per_s is None
    assert found.saved_ns is None
    assert found.restore_share is None
    assert found.prefix_hit_rate is None


def test_waiting_beside_free_slots_is_lack_of_memory() -> None:
    totals = StepTotals()
    totals.add(make_step(waiting=3, slots_busy=4, slots_total=4))
    totals.add(make_step(waiting=3, slots_busy=3, slots_total=4))
    totals.add(make_step(waiting=0, slots_busy=1, slots_total=4))
    assert totals.short_of_memory == 1 / 3
