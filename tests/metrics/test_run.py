from __future__ import annotations

import json

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics import RunAccumulator, RunSummary
from cbatch.metrics.run import LATENCIES
from cbatch.types import FinishReason, Observer, RequestOutput
from tests.metrics.factories import make_fault, make_output, make_ref, make_samples, make_step, no_view


def summarise(*outputs: RequestOutput) -> RunSummary:
    accumulator = RunAccumulator()
    for number, output in enumerate(outputs, 1):
        accumulator.finished(make_ref(number), output)
    return accumulator.summary()


def test_it_is_an_observer() -> None:
    observer: Observer = RunAccumulator()
    observer.step(make_step(start_ns=1, end_ns=4), no_view)
    assert isinstance(observer, RunAccumulator)
    assert observer.summary().engine_ns == 3


def test_rows_are_counted_by_how_they_ended() -> None:
    accumulator = RunAccumulator()
    for reason in (
        FinishReason.STOP,
        FinishReason.LENGTH,
        FinishReason.LENGTH,
        FinishReason.ERROR,
        FinishReason.CANCELLED,
    ):
        accumulator.finished(make_ref(), make_output([1], reason=reason))
    accumulator.fault(make_fault())
    found = accumulator.summary()
    assert (found.rows_total, found.rows_ok, found.rows_failed, found.rows_cancelled) == (6, 3, 2, 1)
    assert found.finish_reasons == {"stop": 1, "length": 2, "error": 2, "cancelled": 1}


def test_duration_and_throughput() -> None:
    second = 1_000_000_000
    found = summarise(
        make_output([3 * second], arrival_ns=2 * second, prompt_tokens=5),
        make_output([4 * second, 6 * second], arrival_ns=3 * second, prompt_tokens=7),
    )
    assert found.duration_ns == 4 * second
    assert found.requests_per_s == 0.5
    assert (found.prompt_tokens, found.output_tokens) == (12, 3)
    assert found.output_tokens_per_s == 0.75
    assert found.total_tokens_per_s == 3.75


def test_a_failure_stretches_the_duration_and_adds_no_throughput() -> None:
    found = summarise(
        make_output([10], arrival_ns=5), make_output([3, 25], arrival_ns=2, reason=FinishReason.ERROR, error="broke")
    )
    assert found.duration_ns == 23
    assert found.output_tokens == 1
    assert found.latencies["e2e_ns"].count == 1


def test_an_empty_run_divides_by_nothing() -> None:
    found = RunAccumulator().summary()
    assert found.rows_total == 0
    assert found.duration_ns == 0
    assert found.requests_per_s is None
    assert found.latencies["ttft_ns"].p50_ns is None
    json.dumps(found.to_dict(), allow_nan=False)


def test_summary_is_json_ready_with_units() -> None:
    record = summarise(make_output([10, 20], admitted_ns=4)).to_dict()
    again = json.loads(json.dumps(record, allow_nan=False))
    assert again == record
    assert again["latencies"]["tpot_ns"]["mean_ns"] == 10
    assert again["latencies"]["tpot_ns"]["p99_hidden"] == "p99 needs 100 values, there are 1"
    assert again["finish_reasons"] == {"stop": 1}


def test_a_row_of_samples_is_one_row_with_all_their_tokens() -> None:
    first = make_output([4, 5], prompt_tokens=3)
    broken = make_output([5, 6, 7], reason=FinishReason.ERROR, finished_ns=20)
    found = summarise(make_samples(first, make_output([5, 6, 7, 9]), broken))
    assert (found.rows_total, found.rows_ok, found.rows_failed) == (1, 1, 0)
    assert (found.prompt_tokens, found.output_tokens) == (3, 6)
    assert found.duration_ns == 20
    assert (found.latencies["e2e_ns"].count, found.latencies["e2e_ns"].p50_ns) == (1, 5)


def test_a_row_whose_first_sample_failed_has_failed() -> None:
    found = summarise(make_samples(make_output([4], reason=FinishReason.ERROR), make_output([5, 6])))
    assert (found.rows_ok, found.rows_failed, found.output_tokens) == (0, 1, 0)


def test_prefixes_and_preemptions_are_those_of_the_steps() -> None:
    accumulator = RunAccumulator()
    accumulator.step(make_step(prefill_tokens=6, ideal_tokens=9, restored_tokens=6, preempted=2, moved=1), no_view)
    found = accumulator.summary()
    assert (found.prefix_hit_rate, found.ideal_prefix_hit_rate) == (6 / 12, 9 / 12)
    assert (found.restored_tokens, found.preemptions, found.moves) == (6, 2, 1)


def test_kv_memory_is_told_in_bytes_where_their_size_is_known() -> None:
    accumulator = RunAccumulator(bytes_per_token=100.0)
    accumulator.step(make_step(end_ns=1, kv_used_cells=3, kv_reserved_cells=5, kv_total_cells=8, slots_busy=1), no_view)
    record = json.loads(json.dumps(accumulator.summary().to_dict()))
    assert record["kv_memory"]["per_slot"]["peak_bytes"] == 500


@st.composite
def outputs(draw: st.DrawFn) -> RequestOutput:
    arrival = draw(st.integers(0, 1000))
    gaps = draw(st.lists(st.integers(0, 50), min_size=2, max_size=6))
    times = [arrival + int(t) for t in np.cumsum(gaps)]
    reason = draw(st.sampled_from(list(FinishReason)))
    return make_output(times[1:], arrival_ns=arrival, admitted_ns=times[0], reason=reason)


@given(st.lists(outputs(), max_size=12))
def test_summary_agrees_with_brute_force(found: list[RequestOutput]) -> None:
    summary = summarise(*found)
    good = [o for o in found if o.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)]
    expected = {
        "queue_ns": [o.admitted_ns - o.request.arrival_ns for o in good if o.admitted_ns is not None],
        "ttft_ns": [o.token_ns[0] - o.request.arrival_ns for o in good],
        "tpot_ns": [float(np.diff(o.token_ns).mean()) for o in good if len(o.token_ns) > 1],
        "e2e_ns": [o.finished_ns - o.request.arrival_ns for o in good],
    }
    assert set(expected) == set(LATENCIES)
    for name, values in expected.items():
        distribution = summary.latencies[name]
        assert distribution.count == len(values)
        if values:
            assert distribution.mean_ns == pytest.approx(np.mean(values))
            assert distribution.p90_ns == pytest.approx(np.percentile(values, 90))
    assert summary.output_tokens == sum(len(o.token_ns) for o in good)
    if found:
        first = min(o.request.arrival_ns for o in found)
        assert summary.duration_ns == max(o.finished_ns for o in found) - first
