from __future__ import annotations

import math

import numpy as np

from cbatch.logprobs import Logprobs
from cbatch.outputs import schema
from cbatch.outputs.arrow import column
from cbatch.outputs.logprobs import mean, places
from cbatch.types import Tokens
from tests.metrics.factories import make_logprobs

FOUND = make_logprobs((-0.5, [(7, -0.25), (1, -0.5)]), (-2.0, [(3, -1.0), (-1, math.nan)]))


def ids(*tokens: int) -> Tokens:
    return np.array(tokens, np.int32)


def test_places_become_a_cell_of_the_schema_s_type() -> None:
    cell = places(ids(1, 4), FOUND)
    assert cell.type == schema.PLACES
    assert cell.to_pylist() == [
        [
            {
                "token_id": 1,
                "logprob": -0.5,
                "top": [{"token_id": 7, "logprob": -0.25}, {"token_id": 1, "logprob": -0.5}],
            },
            {"token_id": 4, "logprob": -2.0, "top": [{"token_id": 3, "logprob": -1.0}]},
        ]
    ]


def test_cells_make_a_column_with_nulls_between() -> None:
    one = make_logprobs((-1.0, []))
    cells = column([places(ids(1, 4), FOUND), None, places(ids(4), one)], schema.PLACES)
    assert [None if cell is None else len(cell) for cell in cells.to_pylist()] == [2, None, 1]


def test_what_isn_t_known_is_null() -> None:
    found = make_logprobs((math.nan, [(-1, math.nan)]), (-math.inf, [(2, 0.0)]))
    first, second = places(ids(1, 4), found)[0].as_py()
    assert first == {"token_id": 1, "logprob": None, "top": []}
    assert second["logprob"] == -math.inf
    assert places(ids(1), None) is None


def test_no_tokens_and_no_candidates() -> None:
    assert places(ids(), Logprobs.of([])).to_pylist() == [[]]
    assert places(ids(5), make_logprobs((-1.0, [])))[0].as_py() == [{"token_id": 5, "logprob": -1.0, "top": []}]


def test_a_prompt_that_broke_off_has_its_first_tokens() -> None:
    assert [place["token_id"] for place in places(ids(1, 4, 9), FOUND)[0].as_py()] == [1, 4]


def test_the_mean_is_over_the_tokens() -> None:
    assert mean(FOUND) == -1.25
    assert mean(Logprobs.of([])) is None
    assert mean(None) is None
