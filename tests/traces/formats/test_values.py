from __future__ import annotations

from contextlib import suppress
from decimal import Decimal
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.traces.formats.format import BadRow
from cbatch.traces.formats.values import blocks_of, count_of, label_of, ns_of, text_of

SECOND, MS = 10**9, 10**6


@given(st.integers(0, 10**18))
def test_seconds_are_exact_to_the_nanosecond(ns: int) -> None:
    text = f"{ns // SECOND}.{ns % SECOND:09d}"
    assert ns_of({"t": text}, "t", SECOND) == ns
    assert ns_of({"t": Decimal(text)}, "t", SECOND) == ns


@pytest.mark.parametrize(
    ("value", "unit_ns", "ns"),
    [
        (27482, MS, 27_482_000_000),
        ("5.8926549999999995", SECOND, 5_892_655_000),  # a float's digits
        (61.114, SECOND, 61_114_000_000),
        ("1.5e3", MS, 1_500_000_000),
        ("0", SECOND, 0),
        ("-0.0", SECOND, 0),
        (" 7 ", SECOND, 7_000_000_000),
    ],
)
def test_times(value: Any, unit_ns: int, ns: int) -> None:
    assert ns_of({"t": value}, "t", unit_ns) == ns


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("soon", "t is 'soon': give a time as a number"),
        (True, "t is true: give a time as a number"),
        (None, "t is null: give a time as a number"),
        (float("nan"), "t is nan"),
        ("Infinity", "t is 'Infinity'"),
        ("1_000", "t is '1_000'"),
        (-1, "t is -1, which is negative: give 0 or more"),
        ("-1e-30", "t is '-1e-30', which is negative"),
        (Decimal("1e999999999"), "too large"),
        (4_611_686_019, "over 146 years: check the time unit"),
    ],
)
def test_what_is_no_time(value: Any, message: str) -> None:
    with pytest.raises(BadRow) as caught:
        ns_of({"t": value}, "t", SECOND)
    assert message in str(caught.value)


@pytest.mark.parametrize(
    ("value", "count"), [("472", 472), ("472.0", 472), (472.0, 472), ("0", 0), (2**31 - 1, 2**31 - 1)]
)
def test_counts(value: Any, count: int) -> None:
    assert count_of({"n": value}, "n") == count


@pytest.mark.parametrize(
    ("value", "message"),
    [
        ("many", "n is 'many': give a number of tokens as a number"),
        (1.5, "n is 1.5: give a whole number"),
        (-3, "n is -3, which is negative"),
        (2**31, "give at most 2147483647"),
        (Decimal("1e999999999"), "give at most"),
        (float("inf"), "n is inf"),
        (False, "n is false"),
        ([1], "n is a list"),
    ],
)
def test_what_is_no_count(value: Any, message: str) -> None:
    with pytest.raises(BadRow) as caught:
        count_of({"n": value}, "n")
    assert message in str(caught.value)


def test_a_missing_column_is_named_with_those_there_are() -> None:
    with pytest.raises(BadRow, match=r"n is missing \(found 'a', 'b'\): add it"):
        count_of({"a": 1, "b": 2}, "n")


def test_texts_are_not_empty_and_have_a_utf8_form() -> None:
    assert text_of({"p": "hé"}, "p") == "hé"
    for value, message in (
        ("", "empty"),
        (3, "p is 3: give one string"),
        ("a\ud800", r"half a surrogate pair, \ud800"),
    ):
        with pytest.raises(BadRow) as caught:
            text_of({"p": value}, "p")
        assert message in str(caught.value)


def test_labels_may_be_absent_texts_or_whole_numbers() -> None:
    assert [label_of(row, "s") for row in ({}, {"s": None}, {"s": ""}, {"s": 0}, {"s": "a"})] == [
        None,
        None,
        None,
        "0",
        "a",
    ]
    with pytest.raises(BadRow, match="s is true"):
        label_of({"s": True}, "s")


def test_blocks_are_whole_numbers_of_64_bits() -> None:
    assert blocks_of({"h": [0, -5, 2**63 - 1]}, "h") == (0, -5, 2**63 - 1)
    assert blocks_of({}, "h") == ()
    for value, message in (
        ("a", "h is 'a'"),
        ([1, "b"], "h holds 'b'"),
        ([2**63], "at most 64 bits"),
        ([True], "true"),
    ):
        with pytest.raises(BadRow) as caught:
            blocks_of({"h": value}, "h")
        assert message in str(caught.value)


@given(
    st.from_type(object) | st.text() | st.floats() | st.integers() | st.decimals() | st.lists(st.integers() | st.text())
)
def test_any_value_gives_a_result_or_a_bad_row(value: Any) -> None:
    row = {"x": value}
    for read in (
        lambda: ns_of(row, "x", MS),
        lambda: count_of(row, "x"),
        lambda: text_of(row, "x"),
        lambda: blocks_of(row, "x"),
    ):
        with suppress(BadRow):
            read()
