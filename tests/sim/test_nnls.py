from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st
from scipy.optimize import nnls as reference

from cbatch.sim.nnls import nnls


@given(st.integers(0, 2**32 - 1), st.integers(1, 8), st.integers(0, 30), st.booleans())
def test_it_is_as_near_as_scipys(seed: int, columns: int, more: int, scaled: bool) -> None:
    random = np.random.default_rng(seed)
    a = random.normal(size=(columns + more, columns)) * (10.0 ** random.integers(-3, 6, columns) if scaled else 1)
    b = random.normal(size=columns + more)
    found, (wanted, distance) = nnls(a, b), reference(a, b)
    assert (found >= 0).all()
    assert np.linalg.norm(a @ found - b) <= distance * (1 + 1e-6) + 1e-9
    assert wanted.shape == found.shape


def test_a_column_of_zeros_gets_nothing() -> None:
    assert nnls(np.array([[1.0, 0.0], [1.0, 0.0]]), np.array([2.0, 4.0])).tolist() == [3.0, 0.0]


def test_equal_columns_share() -> None:
    found = nnls(np.array([[1.0, 1.0], [2.0, 2.0]]), np.array([3.0, 6.0]))
    assert (found >= 0).all()
    assert found.sum() == 3.0 or abs(found.sum() - 3.0) < 1e-9
