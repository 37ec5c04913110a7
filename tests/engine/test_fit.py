"""What becomes of requests that a context can't hold, by policy."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.config import ON_OVERFLOW, Overflow
from cbatch.engine import fit_to_context
from cbatch.errors import ParameterError, UsageError
from cbatch.types import Request
from tests.engine.factories import request


def fit(prompt: int, max_tokens: int, limit: int, policy: str, keep: int = 0) -> Request:
    """The prompt's tokens are 1, 2, 3, ..."""
    fitted = fit_to_context(request("a", prompt, max_tokens), limit, Overflow(policy, keep))
    assert isinstance(fitted, Request)
    return fitted


@pytest.mark.parametrize("policy", ON_OVERFLOW)
def test_what_fits_stays_as_it_is(policy: str) -> None:
    wanted = request("a", prompt=6, max_tokens=5)
    assert fit_to_context(wanted, 10, Overflow(policy)) is wanted


def test_error_refuses_long_prompts_and_cuts_outputs() -> None:
    refused = fit_to_context(request("a", prompt=11), 10)
    assert isinstance(refused, str)
    assert "11 tokens, and the context holds 10" in refused
    assert "--on-overflow" in refused
    fitted = fit(10, 9, 10, "error")
    assert (fitted.prompt.size, fitted.sampling.max_tokens, fitted.truncated_tokens) == (10, 1, 0)


def test_truncation_leaves_room_for_the_output() -> None:
    fitted = fit(30, 4, 10, "truncate-left")
    assert fitted.prompt.tolist() == [24, 25, 26, 27, 28, 29, 30]
    assert (fitted.sampling.max_tokens, fitted.truncated_tokens) == (4, 23)
    assert fit(30, 4, 10, "truncate-left", keep=2).prompt.tolist() == [1, 2, 26, 27, 28, 29, 30]
    assert fit(30, 4, 10, "truncate-middle").prompt.tolist() == [1, 2, 3, 27, 28, 29, 30]
    assert fit(30, 4, 10, "truncate-middle", keep=5).prompt.tolist() == [1, 2, 3, 4, 5, 28, 29, 30]


def test_an_output_that_wants_more_than_half_of_the_context_gets_half() -> None:
    fitted = fit(30, 100, 10, "truncate-left")
    assert fitted.prompt.tolist() == [26, 27, 28, 29, 30]
    assert fitted.sampling.max_tokens == 6
    fitted = fit(3, 100, 10, "truncate-left")
    assert (fitted.truncated_tokens, fitted.sampling.max_tokens) == (0, 8)


def test_shift_lets_outputs_go_on_and_cuts_only_prompts_beyond_the_context() -> None:
    fitted = fit(9, 100, 10, "shift", keep=2)
    assert (fitted.max_cells, fitted.keep, fitted.truncated_tokens) == (10, 2, 0)
    assert fitted.sampling.max_tokens == 100
    assert fitted.cells_needed == 10
    assert fit(1, 100, 10, "shift", keep=2).keep == 1
    fitted = fit(11, 100, 10, "shift", keep=2)
    assert fitted.prompt.tolist() == [1, 2, 8, 9, 10, 11]
    assert (fitted.truncated_tokens, fitted.sampling.max_tokens, fitted.max_cells) == (5, 100, 10)


@given(st.integers(1, 60), st.integers(1, 60), st.integers(1, 40), st.sampled_from(ON_OVERFLOW[1:]), st.integers(0, 20))
def test_whatever_comes_it_fits(prompt: int, max_tokens: int, limit: int, policy: str, keep: int) -> None:
    keep = min(keep, limit // 2)
    fitted = fit(prompt, max_tokens, limit, policy, keep)
    assert fitted.cells_needed <= limit
    assert fitted.prompt.size + fitted.truncated_tokens == prompt
    assert fitted.prompt[:keep].tolist() == list(range(1, min(keep, prompt) + 1))
    assert fitted.prompt[-1] == prompt
    assert np.all(np.diff(fitted.prompt) > 0)
    if policy == "shift":
        assert fitted.sampling.max_tokens == max_tokens
    else:
        assert fitted.sampling.max_tokens >= min(max_tokens, (limit - keep) // 2)


def test_values_that_make_no_sense_are_refused() -> None:
    with pytest.raises(UsageError, match="'cut': give one of error, truncate-left"):
        Overflow("cut")
    with pytest.raises(UsageError, match="keep is -1"):
        Overflow("shift", -1)
    for cells, keep in ((3, 0), (10, 6), (10, -1)):
        with pytest.raises(ParameterError, match="has 4 prompt tokens"):
            Request("a", np.arange(4, dtype=np.int32), max_cells=cells, keep=keep)
