from __future__ import annotations

import numpy as np

from cbatch.metrics import Objectives
from cbatch.metrics.run_data import RunCollector, RunData
from cbatch.types import FinishReason, Observer
from tests.metrics.factories import make_fault, make_output, make_ref, make_step, no_view


def gather() -> RunData:
    collector = RunCollector(Objectives({"ttft": 10}))
    collector.step(make_step(start_ns=6, end_ns=11, slots_busy=1, slots_total=4), no_view)
    collector.step(make_step(start_ns=14, end_ns=25, slots_busy=4, slots_total=4), no_view)
    collector.finished(make_ref(4), make_output([12, 14, 20], arrival_ns=2, admitted_ns=6))
    collector.finished(make_ref(1), make_output([17], arrival_ns=5, admitted_ns=9))
    late = make_output([15, 16], arrival_ns=4, admitted_ns=10, reason=FinishReason.ERROR)
    collector.finished(make_ref(3), late)
    collector.fault(make_fault(2))
    return collector.data()


def test_it_is_an_observer() -> None:
    observer: Observer = RunCollector()
    assert observer is not None


def test_columns_are_by_row_number_whatever_ended_first() -> None:
    run = gather()
    assert run.rows.tolist() == [1, 2, 3, 4]
    assert run.completed.tolist() == [True, False, False, True]
    nan = np.nan
    expected = {
        "arrival_ns": [5, 0, 4, 2],
        "prompt_tokens": [3, nan, 3, 3],
        "output_tokens": [1, nan, 2, 3],
        "queue_ns": [4, nan, 6, 4],
        "ttft_ns": [12, nan, 11, 10],
        "tpot_ns": [nan, nan, 1, 4],
        "e2e_ns": [12, nan, 12, 18],
        "max_itl_ns": [nan, nan, 1, 6],
        "unshared_tokens": [1, nan, 1, 3],  # the prompts are the same, and the last row's came first
    }
    assert set(run.columns) == set(expected)
    for name, values in expected.items():
        np.testing.assert_array_equal(run.columns[name], values, err_msg=name)


def test_a_closed_loop_isnt_judged_as_saturated() -> None:
    """Who waits there for a slot has been let in by others that were served."""
    found = []
    for closed in (False, True):
        collector = RunCollector(closed_loop=closed)
        for i in range(200):  # each waits longer than the one before
            output = make_output([3 * i + 8], arrival_ns=i, admitted_ns=3 * i)
            collector.finished(make_ref(i + 1), output)
        found.append(collector.data().summary.saturation)
    assert found[0] is not None
    assert found[0].saturated
    assert found[1] is None


def test_idle_slot_steps_and_the_summary_come_along() -> None:
    run = gather()
    assert run.idle_slot_steps == 3
    assert (run.summary.arrived, run.summary.completed, run.summary.attainment) == (4, 2, 0.25)
    assert run.summary.run.slot_utilisation == 5 / 8


def test_outputs_are_those_of_completed_requests() -> None:
    assert {name: tokens.tolist() for name, tokens in gather().outputs.items()} == {"r": [0]}  # both are called r


def test_a_metric_is_aligned_to_any_rows_and_only_of_completed_requests() -> None:
    run = gather()
    rows = np.array([1, 3, 4, 9])
    np.testing.assert_array_equal(run.metric("ttft_ns", rows), [12, np.nan, 10, np.nan])
    assert run.has_completed(rows).tolist() == [True, False, True, False]


def test_an_empty_run_has_no_rows() -> None:
    run = RunCollector().data()
    assert run.rows.size == run.completed.size == run.columns["e2e_ns"].size == 0
