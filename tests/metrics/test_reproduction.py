"""Figures of a study: medians, ratios, rates at a latency, their record."""

from __future__ import annotations

import json
import math

import pytest

from cbatch.metrics.reproduction import (
    MEASURES,
    NO_RATIO,
    RATE_AT_LATENCY,
    Finding,
    Reproduction,
    finding,
    rate_at,
    rates_at_latency,
)
from cbatch.metrics.run_data import RunCollector, RunData
from cbatch.types import RowRef
from tests.metrics.factories import make_output

MS = 1_000_000


def run(first_ms: int) -> RunData:
    """One request of 4 tokens, the last one 30 ms after the first."""
    collector = RunCollector()
    times = [first_ms * MS + n * 10 * MS for n in range(4)]
    collector.finished(RowRef(0, "0", "", 0), make_output(token_ns=times))
    return collector.data()


def latency(point: str, static: float | None, continuous: float | None) -> Finding:
    medians = {"static": static, "continuous": continuous}
    return Finding(point, "normalized_latency_p50", "ns", medians, NO_RATIO, None)


def test_a_finding_has_medians_over_repetitions_and_their_ratio() -> None:
    runs = {"static": [run(40), run(80), run(60)], "continuous": [run(20), run(40), run(30)]}
    found = finding("load-0.5", "ttft_mean", runs, 0.2)
    assert found.medians == {"static": 60 * MS, "continuous": 30 * MS}
    assert found.ratio.ratio == pytest.approx(0.5)
    assert found.published == 0.2


@pytest.mark.parametrize(
    ("metric", "expected"),
    [("ttft_mean", 10 * MS), ("normalized_latency_p50", 10 * MS), ("output_throughput", 100.0)],
)
def test_measures(metric: str, expected: float) -> None:
    assert MEASURES[metric].of_run(run(10)) == pytest.approx(expected)


@pytest.mark.parametrize(
    ("latencies", "expected"),
    [
        ([1, 2, 4], 2.5),
        ([1, 2, 3], 3),
        ([1, 2, 2.5], 3),
        ([4, 5, 6], None),
        ([1, 5, 2], 1.5),
        ([1, math.nan, 2], 1),
        ([math.nan, 1, 2], None),
    ],
)
def test_the_rate_at_a_latency_of_3(latencies: list[float], expected: float | None) -> None:
    assert rate_at(3, [1, 2, 3], latencies) == expected


def test_rates_at_twice_the_latency_of_the_least_loaded() -> None:
    findings = [latency("a", 30, 20), latency("b", 50, 25), latency("c", 100, 30)]
    found = rates_at_latency([1, 2, 4], findings, 36.9)
    assert found.medians == {"static": 1.5, "continuous": 4}
    assert found.ratio.ratio == pytest.approx(4 / 1.5)
    assert (found.metric, found.published) == (RATE_AT_LATENCY, 36.9)


def test_a_rate_below_the_lowest_gives_no_ratio() -> None:
    assert rates_at_latency([1], [latency("a", 50, 20)], 36.9).ratio == NO_RATIO
    assert rates_at_latency([1], [latency("a", 50, None)], 36.9).ratio == NO_RATIO


def test_the_record_is_json() -> None:
    found = latency("a", None, 20)
    told = Reproduction("orca", "source", "reason.", 0.25, 48, 3, 2.0, (found,), 10, 9)
    record = json.loads(json.dumps(told.to_dict(), allow_nan=False))
    assert record["findings"] == [found.to_dict()]
    assert record["capacity_rps"] == 2
