from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.special import log_softmax

from cbatch.engine.sequence import Sequence
from cbatch.llama.sampling import Sampler, logprobs_at, rows_to_score
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.llama.sampling.reference import by_likelihood


def sequence(**fields: object) -> Sequence:
    return Sequence(Request("r", np.array([1, 2, 3], np.int32), SamplingParams(**fields)), 0)  # type: ignore[arg-type]


@given(st.integers(0, 2**32 - 1), st.sampled_from([1, 7, 261, 5003, 49152]), st.integers(0, 20), st.floats(0.01, 60))
def test_is_the_log_softmax_in_float64(seed: int, n_vocab: int, k: int, spread: float) -> None:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, spread, n_vocab).round(rng.integers(0, 7)).astype(np.float32)  # rounding makes ties
    token = int(rng.integers(n_vocab))
    expected = log_softmax(row.astype(np.float64))
    found = logprobs_at(row, token, k)
    assert found.token == pytest.approx(expected[token], rel=1e-12, abs=1e-12)
    likeliest = by_likelihood(row)[:k]
    assert found.top_ids.tolist() == likeliest + [-1] * (k - len(likeliest))
    np.testing.assert_allclose(found.top[: len(likeliest)], expected[likeliest], rtol=1e-12, atol=1e-12)
    assert np.isnan(found.top[len(likeliest) :]).all()


def test_the_row_is_left_as_it_is() -> None:
    row = np.random.default_rng(0).normal(0, 3, 500).astype(np.float32)
    before = row.copy()
    logprobs_at(row, 3, 5)
    assert (row == before).all()


def test_tokens_ruled_out_by_the_model() -> None:
    row = np.full(10, -np.inf, np.float32)
    row[[4, 8]] = 1.0
    found = logprobs_at(row, 2, 3)
    assert found.token == -np.inf
    assert found.top_ids.tolist() == [4, 8, -1]
    np.testing.assert_allclose(found.top, [np.log(0.5), np.log(0.5), np.nan])


@pytest.mark.parametrize("bad", [np.nan, np.inf])
def test_a_damaged_row_says_nothing(bad: float) -> None:
    row = np.zeros(300, np.float32)
    row[7] = bad
    found = logprobs_at(row, 1, 2)
    assert np.isnan([found.token, *found.top]).all() or found.token == -np.inf
    assert found.top_ids.tolist() == [-1, -1]


def test_only_rows_that_are_asked_for_are_kept_and_choosing_does_not_change_them() -> None:
    seqs = [
        sequence(),
        sequence(logprobs=0, logit_bias=((3, 50.0),), repetition_penalty=2.0),
        sequence(logprobs=2),
        sequence(n=2, best_of=3),
        sequence(n=2, best_of=2),
        sequence(echo=True),
    ]
    logits = np.random.default_rng(1).normal(0, 3, (len(seqs), 40)).astype(np.float32)
    before = logits.copy()
    rows = rows_to_score(logits, seqs)
    assert rows.keys() == {1, 2, 3}
    assert Sampler(40).sample(logits, seqs)[1] == 3
    assert not (logits[1] == before[1]).all()
    assert all((rows[i] == before[i]).all() for i in rows)
    assert rows[2].base is not None  # no copy where nothing is patched
