"""Quantities in bins of time."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.pages.over_time import BINS, edges, mean_inside, peak_inside, spread

VISITS = st.lists(st.tuples(st.integers(0, 100), st.integers(0, 50)), min_size=1, max_size=30)


def test_edges_cover_the_time() -> None:
    at = edges(300.0)
    assert (at[0], at[-1], at.size) == (0, 300, BINS + 1)


def test_an_amount_is_spread_over_its_span() -> None:
    at = np.array([0.0, 10, 20, 30])
    found = spread(at, np.array([5.0, 20]), np.array([15.0, 25]), np.array([8.0, 3]))
    assert found.tolist() == [4, 4, 3]


@given(VISITS)
def test_the_mean_inside_is_the_overlap_with_each_bin(visits: list[tuple[int, int]]) -> None:
    came = np.array([start for start, _ in visits], dtype=np.float64)
    left = came + np.array([length for _, length in visits])
    at = np.linspace(0, 150, 8)
    overlaps = [
        sum(max(0.0, min(b, end) - max(a, start)) for start, end in zip(came, left, strict=True)) / (b - a)
        for a, b in pairwise(at)
    ]
    assert mean_inside(at, came, left) == pytest.approx(overlaps, abs=1e-6)


@given(VISITS)
def test_the_peak_is_the_most_inside_at_any_moment(visits: list[tuple[int, int]]) -> None:
    came = np.array([start for start, _ in visits], dtype=np.float64)
    left = came + np.array([length for _, length in visits])
    assert peak_inside(came, left) == max(int(((came <= t) & (left > t)).sum()) for t in came)


def test_nobody_came() -> None:
    assert peak_inside(np.empty(0), np.empty(0)) == 0
