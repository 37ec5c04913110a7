from __future__ import annotations

import tracemalloc

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics import sketch
from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.sketch import RELATIVE_ERROR, Sketch

VALUES = st.lists(st.integers(0, 2**63 - 1) | st.floats(0, 1e6), max_size=60)


def sketched(values: list[float]) -> Sketch:
    found = Sketch()
    for value in values:
        found.add(value)
    return found


@given(VALUES)
def test_few_values_are_told_exactly(values: list[float]) -> None:
    assert sketched(values).distribution((10, 50, 90)) == Distribution.of(values, (10, 50, 90))


@given(VALUES.filter(len), st.lists(st.integers(1, 90), min_size=1, max_size=4))
def test_many_values_are_told_closely(values: list[float], percentiles: list[int]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sketch, "EXACT", 7)
        found = sketched(values).distribution(percentiles)
    exact = Distribution.of(values, percentiles)
    assert found.count == exact.count
    assert found.mean_ns == pytest.approx(exact.mean_ns)
    assert [p for p, _ in found.percentiles] == percentiles
    told = [value for _, value in found.percentiles]
    # what is below 1 ns counts as 0
    assert told == pytest.approx([v for _, v in exact.percentiles], rel=RELATIVE_ERROR * 1.001, abs=1)


def test_a_hidden_percentile_stays_hidden(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sketch, "EXACT", 7)
    found = sketched([float(i) for i in range(150)]).distribution((50, 99, 99.9))
    assert found.percentiles[2] == (99.9, None)
    assert found.hidden == "p99.9 needs 1,000 values, there are 150"


def test_memory_doesn_t_grow_with_values_and_percentiles_stay_close() -> None:
    values = np.random.default_rng(0).lognormal(20, 2, 350_000)
    tracemalloc.start()
    found = sketched(values.tolist())
    grown, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    assert grown < 1_300_000
    told = found.distribution((1, 50, 99, 99.9))
    assert told.count == 350_000
    assert told.mean_ns == pytest.approx(values.mean(), rel=1e-9)
    assert [v for _, v in told.percentiles] == pytest.approx(
        np.percentile(values, (1, 50, 99, 99.9)), rel=RELATIVE_ERROR
    )
