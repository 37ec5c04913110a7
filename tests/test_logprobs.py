from __future__ import annotations

import math

import numpy as np

from cbatch.logprobs import Logprobs, TokenLogprobs


def place(token: float, *top: tuple[int, float]) -> TokenLogprobs:
    ids, values = zip(*top, strict=True) if top else ((), ())
    return TokenLogprobs(token, np.array(ids, np.int32), np.array(values, np.float64))


def test_places_become_arrays_with_one_row_each() -> None:
    found = Logprobs.of([place(-1.0, (4, -0.5), (2, -1.0)), place(-3.0, (7, -0.1), (-1, math.nan))])
    assert found.tokens.tolist() == [-1.0, -3.0]
    assert found.top_ids.tolist() == [[4, 2], [7, -1]]
    assert found.top[:, 0].tolist() == [-0.5, -0.1]
    assert found.mean == -2.0


def test_only_the_tokens_own() -> None:
    found = Logprobs.of([place(-1.0), place(-2.0), place(-6.0)])
    assert found.top_ids.shape == found.top.shape == (3, 0)
    assert found.mean == -3.0


def test_of_no_tokens() -> None:
    found = Logprobs.of([])
    assert found.tokens.shape == (0,)
    assert found.top_ids.shape == (0, 0)
    assert math.isnan(found.mean)


def test_nothing_comes_before_a_prompts_first_token() -> None:
    found = Logprobs.of_prompt([place(-1.0, (4, -0.5)), place(-2.0, (5, -0.6))])
    assert np.isnan(found.tokens).tolist() == [True, False, False]
    assert found.top_ids.tolist() == [[-1], [4], [5]]
    assert np.isnan(found.top).tolist() == [[True], [False], [False]]
    assert Logprobs.of_prompt([]).top_ids.shape == (1, 0)
