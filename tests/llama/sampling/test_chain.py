from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.llama.sampling.chain import sample_row, survivors
from cbatch.llama.sampling.draw import FAILED
from cbatch.sampling import SamplingParams
from tests.llama.sampling import reference

SLACK = 1e-4  # float32 sums of up to some thousand probabilities


def logits(n_vocab: int, seed: int, scale: float) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, scale, n_vocab).astype(np.float32)


@settings(deadline=None)
@given(
    st.sampled_from([1, 2, 5, 300, 2000]),
    st.integers(0, 2**32),
    st.sampled_from([0.1, 1.0, 3.0, 20.0]),
    st.floats(0.01, 0.99),
    st.sampled_from([0, 5, 100]),
)
def test_keeps_what_is_locally_typical(n_vocab: int, seed: int, scale: float, typical_p: float, top_k: int) -> None:
    row = logits(n_vocab, seed, scale)
    got = survivors(row, SamplingParams(temperature=1.0, typical_p=typical_p, top_k=top_k)).tolist()
    ids = reference.by_likelihood(row)[: top_k or None]
    sure, possible = reference.typical(row, ids, typical_p, SLACK)
    assert len(set(got)) == len(got) >= 1
    assert sure <= set(got) <= possible


@pytest.mark.parametrize("n_vocab", [50, 3000])
def test_a_typical_p_that_cuts_nothing_leaves_the_other_cuts_as_defined(n_vocab: int) -> None:
    sampling = SamplingParams(temperature=1.0, typical_p=1 - 2**-53, top_k=30, top_p=0.8, min_p=0.02)
    row = logits(n_vocab, 1, 1.5)
    assert sorted(survivors(row, sampling).tolist()) == sorted(reference.kept(row, sampling))


def test_logits_far_apart_huge_or_banned_don_t_upset_the_entropy() -> None:
    row = np.full(4000, -np.inf, dtype=np.float32)
    row[[5, 6, 7, 8]] = 1000, 999.9, 999.8, 600
    assert set(survivors(row, SamplingParams(temperature=1.0, typical_p=0.99)).tolist()) == {5, 6, 7}
    row[[5, 6]] = 3e38, -3e38
    with np.errstate(over="ignore"):
        assert survivors(row, SamplingParams(temperature=1.0, typical_p=0.5)).tolist() == [5]


def test_draws_among_the_survivors_at_the_temperature() -> None:
    row = logits(2000, 4, 2.0)
    sampling = SamplingParams(temperature=0.6, typical_p=0.7)
    ids = survivors(row, sampling).tolist()
    ids = [t for t in reference.by_likelihood(row) if t in set(ids)]
    for u in np.random.default_rng(0).random(50).tolist():
        assert sample_row(row, sampling, u) == reference.drawn(row, ids, 0.6, u)


def test_the_row_is_left_as_it_was() -> None:
    row = logits(100, 2, 1.0)
    before = row.copy()
    sample_row(row, SamplingParams(temperature=1.0, typical_p=0.5), 0.5)
    assert row.tolist() == before.tolist()


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_broken_row_fails(bad: float) -> None:
    row = logits(100, 2, 1.0)
    row[50] = bad
    sampling = SamplingParams(temperature=1.0, typical_p=0.5)
    assert sample_row(row, sampling, 0.5) == FAILED
    assert sample_row(np.full(100, -np.inf, dtype=np.float32), sampling, 0.5) == FAILED
