from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbatch.llama.sampling.stream import uniform
from tests.llama.sampling import reference

# splitmix64.c seeded with 1234567, as published with many implementations
KNOWN = [6457827717110365317, 3203168211198807973, 9817491932198370423, 4593380528125082431, 16408922859458223821]


def test_published_values() -> None:
    assert reference.splitmix64(1234567, 5) == KNOWN
    expected = [(x >> 11) / 2**53 for x in KNOWN]
    assert uniform([1234567] * 5, list(range(5))).tolist() == expected


@given(st.lists(st.tuples(st.integers(-(2**63), 2**64 - 1), st.integers(0, 300)), min_size=1, max_size=5))
def test_matches_the_sequential_generator(draws: list[tuple[int, int]]) -> None:
    got = uniform([seed for seed, _ in draws], [position for _, position in draws])
    assert got.tolist() == [reference.uniform(seed, position) for seed, position in draws]


def test_is_uniform_over_positions_and_over_neighbouring_seeds() -> None:
    n = 20_000
    for values in (uniform([7] * n, list(range(n))), uniform(list(range(n)), [3] * n)):
        counts, _ = np.histogram(values, bins=50, range=(0, 1))
        chi_square = float(((counts - n / 50) ** 2 / (n / 50)).sum())
        assert chi_square < 85.4  # 99.9th percentile at 49 degrees of freedom


def test_nothing_to_draw() -> None:
    assert uniform([], []).size == 0
