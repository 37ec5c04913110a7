from __future__ import annotations

import json
import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.errors import UsageError
from cbatch.metrics.percentiles import Distribution, parse_percentiles, values_needed


def test_percentiles_interpolate_linearly() -> None:
    found = Distribution.of([40, 10, 30, 20])
    assert (found.count, found.mean_ns, found.p50_ns) == (4, 25, 25)
    assert found.p90_ns == pytest.approx(37)


@given(st.lists(st.integers(0, 10**12), min_size=1, max_size=40), st.lists(st.integers(1, 90), min_size=1, max_size=4))
def test_percentiles_are_numpy_s(values: list[int], percentiles: list[int]) -> None:
    found = Distribution.of(values, percentiles)
    assert [value for _, value in found.percentiles] == pytest.approx(np.percentile(values, percentiles))


def test_percentiles_are_told_in_the_order_asked_for() -> None:
    assert Distribution.of([1, 2, 3], (90, 50)).percentiles == ((90, 2.8), (50, 2))
    assert Distribution.of([1, 2, 3], (50,)).p90_ns is None


def test_p99_is_hidden_under_100_values_with_the_reason() -> None:
    few, enough = Distribution.of(range(99)), Distribution.of(range(101))
    assert few.p99_ns is None
    assert few.p99_hidden == few.hidden == "p99 needs 100 values, there are 99"
    assert enough.p99_ns == pytest.approx(99)
    assert (enough.p99_hidden, enough.hidden) == (None, None)


@pytest.mark.parametrize(("p", "needed"), [(50, 1), (90, 1), (95, 20), (99, 100), (99.9, 1000), (99.99, 10_000)])
def test_a_high_percentile_needs_values_beyond_it(p: float, needed: int) -> None:
    assert values_needed(p) == needed
    assert Distribution.of(np.zeros(needed), (p,)).percentiles == ((p, 0),)
    assert Distribution.of(np.zeros(needed - 1), (p,)).percentiles == ((p, None),)


def test_the_reason_names_every_percentile_that_was_asked_for() -> None:
    found = Distribution.of(range(150), (50, 99, 99.9, 99.99))
    assert found.hidden == "p99.9 needs 1,000 values, p99.99 needs 10,000 values, there are 150"
    assert found.p99_hidden is None
    assert Distribution.of([1], (50,)).p99_hidden is None


def test_misses_are_infinite_values() -> None:
    found = Distribution.of([10, 20, 30], (25, 50, 75), misses=2)
    assert (found.count, found.mean_ns) == (5, None)
    assert found.percentiles == ((25, 20), (50, 30), (75, math.inf))


def test_an_interpolation_that_touches_a_miss_is_one() -> None:
    assert Distribution.of([10, 20], (50, 51), misses=1).percentiles == ((50, 20), (51, math.inf))
    assert Distribution.of([], (50, 90), misses=3).percentiles == ((50, math.inf), (90, math.inf))


@given(st.lists(st.integers(0, 1000), max_size=30), st.integers(0, 30), st.integers(1, 89))
def test_misses_rank_above_any_finite_value(values: list[int], misses: int, p: int) -> None:
    found = Distribution.of(values, (p,), misses).percentile(p)
    if len(values) + misses == 0:
        assert found is None
    elif math.ceil((len(values) + misses - 1) * p / 100) >= len(values):
        assert found == math.inf
    else:
        assert found == pytest.approx(np.percentile(values + [10**9] * misses, p))


def test_nothing_has_no_percentiles() -> None:
    assert Distribution.of([]).to_dict() == {
        "count": 0,
        "mean_ns": None,
        "p50_ns": None,
        "p90_ns": None,
        "p99_ns": None,
        "p99_hidden": "p99 needs 100 values, there are 0",
    }


def test_it_is_json_ready_with_misses_too() -> None:
    record = Distribution.of([5, 5, 5], (50, 99.9), misses=4).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == {
        "count": 7,
        "mean_ns": None,
        "p50_ns": "inf",
        "p99.9_ns": None,
        "p99.9_hidden": "p99.9 needs 1,000 values, there are 7",
    }


def test_percentiles_of_a_text_ascend_and_come_once() -> None:
    assert parse_percentiles("99.9, 50,90,50") == (50, 90, 99.9)


@pytest.mark.parametrize("part", ["", "p50", "0", "100", "nan", "-1"])
def test_other_percentiles_are_usage_errors(part: str) -> None:
    with pytest.raises(UsageError, match=f"--percentiles has '{part}': give numbers above 0 and below 100"):
        parse_percentiles(f"50,{part}")
