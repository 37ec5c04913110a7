from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics import Attribution, Objectives, ReplayAccumulator, ReplaySummary, RunAccumulator
from cbatch.metrics.replay import LATENCIES, arrival_rate
from cbatch.types import FinishReason, Observer, RequestOutput, RowFault, RowRef, TimeSplit
from tests.metrics.factories import make_fault, make_output, make_ref, make_step, no_view
from tests.metrics.loads import STEP_NS, play, poisson
from tests.metrics.test_run import outputs

MIXED = (
    make_output([12, 14, 20], arrival_ns=2, enqueued_ns=3, admitted_ns=6, times=TimeSplit(4, 2)),
    make_output([17], arrival_ns=5, enqueued_ns=8, admitted_ns=9, times=TimeSplit(2), reason=FinishReason.LENGTH),
    make_output([15, 16], arrival_ns=4, admitted_ns=10, reason=FinishReason.ERROR, error="broke"),
    make_output([21], arrival_ns=8, admitted_ns=18, finished_ns=22, reason=FinishReason.CANCELLED),
)
"""Two that completed, one that failed, one that had its first token when the replay ended."""


def summarise(
    *found: RequestOutput,
    faults: int = 0,
    objectives: Objectives | None = None,
    percentiles: tuple[float, ...] = (50, 90, 99),
) -> ReplaySummary:
    accumulator = ReplayAccumulator(objectives, percentiles, requested_rate=2.5)
    for number, output in enumerate(found, 1):
        accumulator.finished(make_ref(number), output)
    for _ in range(faults):
        accumulator.fault(make_fault())
    return accumulator.summary()


def test_it_is_an_observer() -> None:
    observer: Observer = ReplayAccumulator()
    assert observer is not None


def test_arrival_rate_is_gaps_over_the_span() -> None:
    assert arrival_rate(np.array([4, 1, 5])) == 2 / 4 * 1e9
    assert arrival_rate(np.array([3, 3])) is None
    assert arrival_rate(np.array([3])) is None
    assert arrival_rate(np.array([])) is None


def test_every_request_that_arrived_is_counted_by_how_it_ended() -> None:
    found = summarise(*MIXED, faults=2)
    assert (found.arrived, found.completed, found.failed, found.unfinished) == (6, 2, 3, 1)
    assert found.requested_rate == 2.5
    assert found.realised_rate == pytest.approx(5 / 8 * 1e9)  # a fault arrives at 0, the last request at 8


def test_the_run_is_summed_up_as_ever() -> None:
    run = RunAccumulator()
    for output in MIXED:
        run.finished(make_ref(), output)
    assert summarise(*MIXED).run == run.summary()


def test_latencies_are_those_of_completed_requests() -> None:
    found = summarise(*MIXED, faults=1, percentiles=(50,)).latencies
    assert {name: d.mean_ns for name, d in found.items()} == {
        "queue_ns": 4,
        "ttft_ns": 11,
        "tpot_ns": 4,
        "e2e_ns": 15,
        "normalized_latency_ns": (18 / 3 + 12 / 1) / 2,
        "itl_pooled_ns": 4,
    }
    assert {name: d.count for name, d in found.items()} == dict.fromkeys(LATENCIES, 2) | {
        "tpot_ns": 1,
        "itl_pooled_ns": 2,
    }


def test_adjusted_latencies_count_what_failed_or_did_not_finish_as_infinite() -> None:
    found = summarise(*MIXED, faults=1, percentiles=(25, 50)).adjusted
    assert set(found) == set(LATENCIES)
    assert found["ttft_ns"].percentiles == ((25, 12), (50, math.inf))  # of 10, 12 and three misses
    assert (found["ttft_ns"].count, found["ttft_ns"].mean_ns) == (5, None)
    assert found["tpot_ns"].count == 4  # one token has no tpot, so that request neither has one nor misses it


def test_slip_is_of_every_request_that_the_engine_was_told_of() -> None:
    found = summarise(*MIXED, faults=3).slip
    assert (found.count, found.mean_ns) == (4, (1 + 3 + 0 + 0) / 4)


def test_goodput_and_attainment() -> None:
    found = summarise(*MIXED, faults=1, objectives=Objectives({"ttft": 10}))
    assert found.run.duration_ns == 20
    assert found.goodput_rps == 1e9 / 20
    assert found.attainment == 1 / 5


def test_without_objectives_there_is_no_goodput() -> None:
    found = summarise(*MIXED)
    assert (found.goodput_rps, found.attainment) == (None, None)


def test_the_mean_attribution_is_that_of_completed_requests() -> None:
    found = summarise(*MIXED)
    first, second = (Attribution.of(output) for output in MIXED[:2])
    assert list(found.attribution.values()) == [(a + b) / 2 for a, b in zip(first, second, strict=True)]
    assert tuple(found.attribution) == Attribution._fields
    assert sum(found.attribution.values()) == found.latencies["e2e_ns"].mean_ns


def test_peaks_and_busy_share_come_from_the_steps() -> None:
    accumulator = ReplayAccumulator()
    accumulator.step(make_step(start_ns=6, end_ns=11, waiting=3, slots_busy=1), no_view)
    accumulator.step(make_step(start_ns=14, end_ns=25, waiting=1, slots_busy=2), no_view)
    for output in MIXED:
        accumulator.finished(make_ref(), output)
    found = accumulator.summary()
    assert (found.peak_waiting, found.peak_running) == (3, 2)
    assert found.busy_share == (5 + 8) / 20  # from the first arrival at 2 to the last finish at 22


def test_an_empty_replay_divides_by_nothing() -> None:
    found = ReplayAccumulator(Objectives({"ttft": 1})).summary()
    assert (found.arrived, found.realised_rate, found.saturation, found.busy_share) == (0, None, None, None)
    assert (found.goodput_rps, found.attainment, found.attribution) == (None, None, {})
    assert found.no_steady_state == "steady state needs 10 requests, there are 0"
    json.dumps(found.to_dict(), allow_nan=False)


def test_a_replay_of_faults_only_has_no_duration() -> None:
    found = summarise(faults=12)
    assert (found.arrived, found.failed, found.busy_share) == (12, 12, None)
    assert found.adjusted["e2e_ns"].p50_ns == math.inf


def test_a_fault_arrives_when_its_row_does() -> None:
    accumulator = ReplayAccumulator()
    accumulator.fault(RowFault(RowRef(1, "1", "", 30), "prompt_too_long", "too long"))
    accumulator.finished(make_ref(2), make_output([50], arrival_ns=40))
    assert accumulator.summary().realised_rate == 1 / 10 * 1e9


def test_a_stable_replay_has_a_steady_state_and_is_json_ready() -> None:
    observer = ReplayAccumulator(Objectives({"ttft": 5 * STEP_NS}), (50, 99.9))
    play(poisson(0.5, 200, seed=0), observer)
    found = observer.summary()
    assert found.saturation is not None
    assert not found.saturation.saturated
    assert found.steady is not None
    assert found.no_steady_state is None
    assert found.busy_share == pytest.approx(0.5, rel=0.2)
    assert [p for p, _ in found.steady.latencies["ttft_ns"].percentiles] == [50, 99.9]
    record = found.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert record["objectives"] == {"ttft_ns": 5 * STEP_NS}


def test_overload_says_so_and_has_no_steady_state() -> None:
    observer = ReplayAccumulator()
    play(poisson(2, 200, seed=0), observer)
    found = observer.summary()
    assert found.saturation is not None
    assert found.saturation.saturated
    assert (found.steady, found.no_steady_state) == (None, "the queue grows to the end")


@given(st.lists(outputs(), max_size=12), st.integers(0, 3))
def test_summary_agrees_with_brute_force(found: list[RequestOutput], faults: int) -> None:
    limit = 60
    summary = summarise(*found, faults=faults, objectives=Objectives({"ttft": limit}), percentiles=(50, 90))
    good = [o for o in found if o.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)]
    ttft = [int(o.token_ns[0]) - o.request.arrival_ns for o in good]
    misses = len(found) + faults - len(good)
    assert summary.arrived == summary.completed + summary.failed + summary.unfinished == len(found) + faults
    assert summary.adjusted["ttft_ns"].count == len(ttft) + misses
    if ttft:
        assert summary.latencies["ttft_ns"].p90_ns == pytest.approx(np.percentile(ttft, 90))
    if found or faults:
        assert summary.attainment == sum(t <= limit for t in ttft) / summary.arrived
    gaps = [int(gap) for o in good for gap in np.diff(o.token_ns)]
    assert summary.latencies["itl_pooled_ns"].count == len(gaps)
    json.dumps(summary.to_dict(), allow_nan=False)
