"""Lengths in bins."""

from __future__ import annotations

from itertools import pairwise

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics.preview import BINS, TokenLengths


@given(st.lists(st.integers(1, 200_000), min_size=1, max_size=50))
def test_every_length_is_in_its_bin(lengths: list[int]) -> None:
    found = TokenLengths.of(lengths)
    assert sum(found.counts) == found.count == len(lengths)
    for low, end, count in zip(found.edges, found.edges[1:], found.counts, strict=False):
        assert count == sum(low <= length < end for length in lengths)
    assert len(found.counts) <= 18
    assert found.counts[0] > 0
    assert found.counts[-1] > 0


@given(st.integers(1, 200_000), st.integers(1, 16))
def test_equal_bins_while_lengths_differ_little(low: int, factor: int) -> None:
    edges = TokenLengths.of([low, low * factor]).edges
    assert len({end - start for start, end in pairwise(edges)}) == 1
    assert len(edges) - 1 <= BINS + 1


def test_doubling_bins_where_lengths_differ_much() -> None:
    assert TokenLengths.of([5, 90]).edges == (4, 8, 16, 32, 64, 128)


def test_figures() -> None:
    found = TokenLengths.of([3, 1, 2, 10])
    assert (found.total, found.min, found.max) == (16, 1, 10)
    assert (found.p50, found.p90, found.p99) == tuple(np.percentile([1, 2, 3, 10], (50, 90, 99)))
