"""Bounds on lengths: by hand, in order, and around the truth."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbatch.cli.output_lengths import OutputLengths, output_lengths
from cbatch.types import FinishReason
from tests.engine.factories import request
from tests.report.factories import make_output, make_request


def test_each_sample_of_a_row_counts() -> None:
    requests = [replace(request("a", 5, 7, n=3), fork_seeds=(1, 2))]
    assert list(output_lengths(requests, [], high=True)) == [7, 7, 7]


def test_bounds_by_hand() -> None:
    # four outputs: 2 and 6 tokens to their ends, 4 and 8 broken off
    known = OutputLengths([2, 6], [4, 8])
    assert known.length(0.1, 100, high=False) == 2
    assert known.length(0.8, 100, high=False) == 6
    assert known.length(0.99, 100, high=False) == 8, "the longest one seen"
    assert known.length(0.99, 100, high=True) == 100
    assert known.length(0.99, 5, high=False) == 5
    nothing = OutputLengths([], [])
    assert (nothing.length(0.5, 9, high=False), nothing.length(0.5, 9, high=True)) == (1, 9)
    running = OutputLengths([], [30, 31])
    assert (running.length(0.5, 99, high=False), running.length(0.5, 99, high=True)) == (31, 99)


@given(
    st.lists(st.integers(1, 50), max_size=40),
    st.lists(st.integers(1, 50), max_size=40),
    st.lists(st.floats(0, 1, exclude_max=True), min_size=2, max_size=8),
    st.integers(1, 60),
)
def test_bounds_are_in_order(ended: list[int], broken_off: list[int], quantiles: list[float], most: int) -> None:
    known = OutputLengths(ended, broken_off)
    for high in (False, True):
        lengths = [known.length(quantile, most, high=high) for quantile in sorted(quantiles)]
        assert lengths == sorted(lengths)
        assert all(1 <= length <= most for length in lengths)
    for quantile in quantiles:
        assert known.length(quantile, most, high=False) <= known.length(quantile, most, high=True)


def test_the_truth_lies_between_the_bounds_whatever_was_broken_off() -> None:
    rng = np.random.default_rng(3)
    inside = 0
    for _ in range(100):
        lengths = np.minimum(1 + rng.geometric(1 / 40, 60), 256)
        stopped = rng.integers(20, 200, 60)
        known = OutputLengths(lengths[lengths <= stopped].tolist(), stopped[lengths > stopped].tolist())
        quantiles = (np.arange(500) + 0.5) / 500
        low, high = (np.mean([known.length(q, 256, high=h) for q in quantiles]) for h in (False, True))
        inside += bool(low <= 41 <= high)
    assert inside >= 85


def test_what_was_seen_counts_and_what_was_broken_off_is_bounded() -> None:
    ends = frozenset({0})
    requests = [replace(make_request(i, max_tokens=20), end_tokens=ends) for i in range(4)]
    tried = [
        make_output(requests[0], 7),
        make_output(requests[1], 20, reason=FinishReason.LENGTH),
        make_output(requests[2], 9, reason=FinishReason.CANCELLED),
    ]
    low, high = (list(output_lengths(requests, tried, high=bound)) for bound in (False, True))
    assert low[:3] == [7, 20, 9]
    assert high[:3] == [7, 20, 20]
    assert low[3] <= high[3]
