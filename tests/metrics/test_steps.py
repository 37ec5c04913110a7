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


def test_without_steps_nothing_is_made_up() -> None:
    found = totals()
    assert found.engine_ns == 0
    assert found.llama_share is None
    assert found.schedule_ns_per_step is None
    assert found.concurrency is None
    assert found.slot_utilisation is None
    assert found.kv_waste is None
    assert found.prefill_tokens_per_s is None
