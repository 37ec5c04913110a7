from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.extra import numpy as hnp

from cbatch.llama.sampling.candidates import largest
from tests.llama.sampling import reference

ROUGH = st.sampled_from([-np.inf, -3.5, -1.0, -0.0, 0.0, 1.0, 2.5, 7.0])
ANY = st.floats(width=32, allow_nan=False, max_value=float(np.finfo(np.float32).max))


def check(logits: npt.NDArray[np.float32], rows: list[int], k: int) -> None:
    got = largest(logits, rows, k)
    for i, r in enumerate(rows):
        expected = [t for t in reference.by_likelihood(logits[r]) if logits[r, t] > -np.inf]
        n = int(got.found[i])
        assert n >= min(k, len(expected))
        assert got.ids[i, :n].tolist() == expected[:n]
        assert got.logits[i, :n].tolist() == logits[r, expected[:n]].tolist()
        if 0 < n < len(expected):
            assert logits[r, expected[n]] < got.logits[i, n - 1], "a tie was left out"
        assert (got.logits[i, n:] == -np.inf).all()


@given(
    hnp.arrays(np.float32, st.tuples(st.integers(1, 3), st.integers(1, 40)), elements=ROUGH | ANY), st.integers(1, 50)
)
def test_small_vocabularies(logits: npt.NDArray[np.float32], k: int) -> None:
    check(logits, list(range(len(logits))), k)


@pytest.mark.parametrize("n_vocab", [1024, 2053, 4999, 8192, 50_257, 140_001])
@pytest.mark.parametrize("k", [1, 5, 40, 300, 10**6])
@pytest.mark.parametrize("ties", [False, True])
def test_folded_vocabularies(n_vocab: int, k: int, ties: bool) -> None:
    rng = np.random.default_rng(k)
    logits = rng.normal(0, 3, (3, n_vocab)).astype(np.float32)
    if ties:
        logits = np.round(logits)
    check(logits, [2, 0], min(k, n_vocab))


def test_largest_at_the_very_end_of_an_uneven_vocabulary() -> None:
    logits = np.zeros((2, 5003), dtype=np.float32)
    logits[0, [5002, 4999, 0]] = 3, 2, 1
    assert largest(logits, [0], 3).ids[0, :3].tolist() == [5002, 4999, 0]


@pytest.mark.parametrize("n_vocab", [10, 5000])
@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_row_has_no_candidates_and_harms_no_other(n_vocab: int, bad: float) -> None:
    logits = np.arange(3 * n_vocab, dtype=np.float32).reshape(3, n_vocab)
    logits[0, n_vocab // 2] = bad
    logits[2] = -np.inf
    got = largest(logits, [0, 1, 2], 2)
    assert got.found.tolist()[0::2] == [0, 0]
    assert got.ids[1, :2].tolist() == [n_vocab - 1, n_vocab - 2]
