from __future__ import annotations

import json
from collections.abc import Mapping

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics.divergence import EXAMPLES, audit, first_difference, repeatability
from cbatch.types import Tokens

token_lists = st.lists(st.integers(0, 2), max_size=6)


def ids(*tokens: int) -> Tokens:
    return np.array(tokens, dtype=np.int32)


def outputs(**found: tuple[int, ...]) -> dict[str, Tokens]:
    return {name: ids(*tokens) for name, tokens in found.items()}


@pytest.mark.parametrize(
    ("one", "other", "place"),
    [
        ((), (), None),
        ((1, 2), (1, 2), None),
        ((1, 2), (1, 3), 1),
        ((1, 2), (2, 2), 0),
        ((1,), (1, 2), 1),
        ((1, 2, 3), (1, 2), 2),
        ((), (4,), 0),
    ],
)
def test_first_difference(one: tuple[int, ...], other: tuple[int, ...], place: int | None) -> None:
    assert first_difference(ids(*one), ids(*other)) == place


@given(token_lists, token_lists)
def test_what_comes_before_the_first_difference_is_shared(one: list[int], other: list[int]) -> None:
    place = first_difference(ids(*one), ids(*other))
    if place is None:
        assert one == other
    else:
        assert one[:place] == other[:place]
        assert one[place : place + 1] != other[place : place + 1]


def test_an_audit_counts_and_asks_for_gaps() -> None:
    asked = []

    def gap(request: str, position: int, ours: int, theirs: int) -> float | None:
        asked.append((request, position, ours, theirs))
        return {"b": 0.25, "d": 0.75}.get(request)

    base = outputs(a=(1, 2), b=(1, 2), c=(1, 2), d=(7,), e=(3, 4), gone=(1,))
    other = outputs(e=(3, 5), d=(8,), c=(1,), b=(1, 3), a=(1, 2), new=(1,), late=(2,))
    found = audit("static", base, other, gap)
    assert (found.variant, found.requests, found.same, found.share, found.unmatched) == ("static", 5, 1, 0.2, 3)
    assert asked == [("b", 1, 2, 3), ("d", 0, 7, 8), ("e", 1, 4, 5)]  # not c: there is no token to ask about
    assert [(d.id, d.position, d.baseline_token, d.variant_token, d.gap) for d in found.examples] == [
        ("b", 1, 2, 3, 0.25),
        ("c", 1, 2, None, None),
        ("d", 0, 7, 8, 0.75),
        ("e", 1, 4, 5, None),
    ]
    assert (found.gaps, found.median_gap, found.max_gap) == ((0.25, 0.75), 0.5, 0.75)
    record = found.to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["share"], record["max_gap"]) == (0.2, 0.75)


def test_without_a_model_there_are_no_gaps() -> None:
    found = audit("x", outputs(a=(1,)), outputs(a=(2,)))
    assert (found.examples[0].gap, found.gaps, found.median_gap, found.max_gap) == (None, (), None, None)


def test_nothing_in_common_has_no_share() -> None:
    assert audit("x", {}, {}).share is None
    assert audit("x", outputs(a=(1,)), outputs(b=(1,))).unmatched == 2


@pytest.mark.parametrize("count", [EXAMPLES, EXAMPLES + 1, 95])
def test_examples_are_bounded_and_spread(count: int) -> None:
    base: Mapping[str, Tokens] = {str(i): ids(i) for i in range(count)}
    found = audit("x", base, {name: tokens + 1 for name, tokens in base.items()}, lambda *_: 0.0)
    places = [int(example.id) for example in found.examples]
    assert (found.requests, found.same, len(places), found.max_gap) == (count, 0, EXAMPLES, 0)
    assert places == sorted(set(places))
    assert places[-1] >= count * 0.9 - 1


def test_repeatability_takes_all_repetitions() -> None:
    runs = [outputs(a=(1, 2), b=(1,), c=(3,)), outputs(a=(1, 2), b=(1,)), outputs(b=(2,), a=(1, 2), d=(1,))]
    found = repeatability("static", runs)
    assert (found.repeats, found.requests, found.same) == (3, 2, 1)
    assert repeatability("static", runs[:1]).same == 3
    assert repeatability("static", []).to_dict() == {"variant": "static", "repeats": 0, "requests": 0, "same": 0}
