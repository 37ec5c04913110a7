from __future__ import annotations

import json
from collections.abc import Sequence

import numpy as np
import pytest

from cbatch.errors import UsageError
from cbatch.metrics import Objectives
from cbatch.metrics.bootstrap import STATISTICS, Ratio
from cbatch.metrics.compare import METRICS, Comparison, Metric, Row, compare
from cbatch.metrics.run_data import RunCollector, RunData
from cbatch.types import FinishReason
from tests.metrics.factories import make_output, make_ref, make_step, no_view
from tests.metrics.loads import STEP_NS, play, poisson


def a_run(ttfts: Sequence[int | None], *, tokens: int = 1, objectives: Objectives | None = None) -> RunData:
    """Requests that all arrive at 0 with a token every 10 ns after the first; None is one that failed."""
    collector = RunCollector(objectives)
    collector.step(make_step(start_ns=0, end_ns=5, slots_busy=1, slots_total=3), no_view)
    for number, ttft in enumerate(ttfts, 1):
        times = [] if ttft is None else [ttft + 10 * i for i in range(tokens)]
        reason = FinishReason.ERROR if ttft is None else FinishReason.LENGTH
        collector.finished(make_ref(number), make_output(times, admitted_ns=1, reason=reason))
    return collector.data()


def row(found: Comparison, key: str, variant: str) -> Row:
    return next(row for row in found.rows if (row.key, row.variant) == (key, variant))


def ratio(found: Comparison, key: str, variant: str) -> Ratio:
    got = row(found, key, variant).ratio
    assert got is not None
    return got


def test_metrics_have_names_of_their_own_and_a_direction() -> None:
    assert len({metric.name for metric in METRICS}) == len(METRICS)
    assert {metric.better for metric in METRICS} == {"lower", "higher", None}


def test_medians_and_ratios_of_requests() -> None:
    static = [a_run(range(100 + i, 150 + i)) for i in range(3)]
    other = [a_run(range(50 + i, 100 + i)) for i in range(3)]
    found = compare({"static": static, "other": other}, "static", resamples=50)
    assert (found.variants, found.baseline, found.repeats) == (("static", "other"), "static", 3)
    base, mine = row(found, "ttft_mean", "static"), row(found, "ttft_mean", "other")
    assert (base.median, base.ratio, base.verdict) == (125.5, None, None)
    assert mine.median == 75.5
    got = ratio(found, "ttft_mean", "other")
    assert (got.ratio, got.pairs, got.dropped) == (75.5 / 125.5, 50, 0)
    assert mine.verdict == "better"


def test_figures_of_whole_runs() -> None:
    goal = Objectives({"ttft": 100})
    static = [a_run([80, 200 + i], tokens=2, objectives=goal) for i in range(3)]
    other = [a_run([40, 90 + i], tokens=2, objectives=goal) for i in range(3)]
    found = compare({"static": static, "other": other}, "static")
    assert row(found, "makespan", "static").median == 211
    assert ratio(found, "makespan", "other").ratio == 101 / 211
    assert ratio(found, "output_throughput", "other").ratio == pytest.approx(211 / 101)
    assert row(found, "output_throughput", "other").verdict == "better"
    assert row(found, "makespan", "other").verdict == "better"
    assert (row(found, "attainment", "static").median, ratio(found, "attainment", "other").ratio) == (0.5, 2)
    assert ratio(found, "goodput", "other").ratio == pytest.approx(2 * 211 / 101)
    assert (row(found, "idle_slot_steps", "other").median, row(found, "slot_utilisation", "other").median) == (2, 1 / 3)
    assert (row(found, "longest_stall", "other").median, row(found, "max_itl_mean", "other").median) == (10, 10)
    assert row(found, "concurrency", "other").verdict is None


def test_requests_that_failed_somewhere_are_dropped_and_those_without_the_metric_are_not_counted() -> None:
    values: list[int | None] = list(range(100, 120))
    broken: list[int | None] = [*values[:5], None, *values[6:]]
    found = compare({"a": [a_run(values), a_run(values)], "b": [a_run(values), a_run(broken)]}, "a", resamples=20)
    assert ratio(found, "e2e_mean", "b")[3:] == (19, 1)
    assert all(row.metric.name != "tpot" for row in found.rows)  # one token each


def test_a_request_that_failed_everywhere_is_counted_too() -> None:
    values: list[int | None] = [None, *range(100, 120)]
    found = compare({"a": [a_run(values)], "b": [a_run(values)]}, "a", resamples=20)
    assert ratio(found, "e2e_mean", "b")[3:] == (20, 1)


def test_a_run_that_ended_early_pairs_what_both_have() -> None:
    found = compare({"a": [a_run(range(100, 120))], "b": [a_run(range(100, 115))]}, "a", resamples=20)
    assert ratio(found, "e2e_mean", "b")[3:] == (15, 5)


def test_metrics_that_nobody_has_are_left_out() -> None:
    keys = {row.key for row in compare({"a": [a_run([5])], "b": [a_run([7])]}, "a").rows}
    assert "ttft_p50" in keys
    assert not keys & {"goodput", "attainment", "tpot_mean", "ttft_p99", "itl_pooled_p99", "longest_stall"}


def test_repetitions_that_a_variant_lacks_are_left_out_of_all() -> None:
    found = compare({"a": [a_run([5]), a_run([500])], "b": [a_run([7])]}, "a")
    assert (found.repeats, row(found, "ttft_mean", "a").median) == (1, 5)


def test_equal_runs_show_no_difference() -> None:
    observers = [RunCollector(), RunCollector()]
    for observer in observers:
        play(poisson(0.5, 120, seed=0), observer, steps=3)
    a, b = (observer.data() for observer in observers)
    found = compare({"a": [a, a], "b": [b, b]}, "a", resamples=20)
    told = [row.ratio[:3] for row in found.rows if row.ratio is not None and row.ratio.low is not None]
    assert len(told) > 20
    assert set(told) == {(1, 1, 1)}
    assert all(row.verdict is None for row in found.rows)
    assert row(found, "tpot_mean", "a").median == STEP_NS


@pytest.mark.parametrize(
    ("better", "low", "high", "verdict"),
    [
        ("lower", 0.5, 0.9, "better"),
        ("lower", 1.1, 1.2, "worse"),
        ("higher", 0.5, 0.9, "worse"),
        ("higher", 1.1, 1.2, "better"),
        ("higher", 1.0, 1.2, None),
        ("lower", 0.9, 1.1, None),
        (None, 0.5, 0.9, None),
        ("lower", None, None, None),
    ],
)
def test_verdicts(better: str | None, low: float | None, high: float | None, verdict: str | None) -> None:
    assert Row(Metric("m", "ns", better), None, "v", 1, Ratio(1, low, high, 9, 0)).verdict == verdict


def test_the_record_is_json_and_names_the_statistic() -> None:
    runs = {"a": [a_run(range(100, 220), tokens=2)] * 2, "b": [a_run(range(200, 320), tokens=2)] * 2}
    record = compare(runs, "a", resamples=20).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["variants"], record["baseline"], record["repeats"]) == (["a", "b"], "a", 2)
    metrics = record["metrics"]
    assert isinstance(metrics, list)
    assert len({(m["metric"], m["variant"]) for m in metrics}) == len(metrics)
    found = next(m for m in metrics if (m["metric"], m["variant"]) == ("ttft_p90", "b"))
    assert {k: found[k] for k in ("name", "statistic", "unit", "better", "pairs", "dropped", "verdict")} == {
        "name": "ttft",
        "statistic": "p90",
        "unit": "ns",
        "better": "lower",
        "pairs": 120,
        "dropped": 0,
        "verdict": "worse",
    }
    assert found["median"] == pytest.approx(np.percentile(np.arange(200, 320), 90))
    assert {m["statistic"] for m in metrics} == {*STATISTICS, None}


def test_the_baseline_has_to_be_there_and_every_variant_to_have_run() -> None:
    with pytest.raises(UsageError, match="the baseline 'x' isn't among the variants: give one of a, b"):
        compare({"a": [a_run([5])], "b": [a_run([5])]}, "x")
    with pytest.raises(UsageError, match="the variant 'b' has no finished run"):
        compare({"a": [a_run([5])], "b": []}, "a")
