from __future__ import annotations

import pytest

from cbatch.metrics.percentiles import Distribution


def test_percentiles_interpolate_linearly() -> None:
    found = Distribution.of([40, 10, 30, 20])
    assert (found.count, found.mean_ns, found.p50_ns) == (4, 25, 25)
    assert found.p90_ns == pytest.approx(37)


def test_p99_is_hidden_under_100_values_with_the_reason() -> None:
    few, enough = Distribution.of(range(99)), Distribution.of(range(101))
    assert few.p99_ns is None
    assert few.p99_hidden == "p99 needs 100 values, there are 99"
    assert enough.p99_ns == pytest.approx(99)
    assert enough.p99_hidden is None


def test_nothing_has_no_percentiles() -> None:
    assert Distribution.of([]).to_dict() == {
        "count": 0,
        "mean_ns": None,
        "p50_ns": None,
        "p90_ns": None,
        "p99_ns": None,
        "p99_hidden": "p99 needs 100 values, there are 0",
    }
