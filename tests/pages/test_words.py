"""How figures are told."""

from __future__ import annotations

import math

import pytest

from cbatch.pages.words import NBSP, counted, each, latency, number, percent, printable, quantity, short


@pytest.mark.parametrize(
    ("value", "text"),
    [(0.2514, "0.251"), (4.031, "4.03"), (12.0, "12.0"), (1320.4, "1,320"), (0, "0"), (None, "–"), (math.inf, "∞")],
)
def test_a_number_has_three_digits(value: float | None, text: str) -> None:
    assert number(value) == text


def test_a_unit_never_stands_alone_on_a_line() -> None:
    assert [latency(31_200), latency(8.1e6), latency(1.25e9)] == [f"0.0312{NBSP}ms", f"8.10{NBSP}ms", f"1.25{NBSP}s"]
    assert [percent(0.414), percent(0.9975)] == [f"41{NBSP}%", f"99.8{NBSP}%"]
    assert quantity(1.0, "req/s") == f"1.00{NBSP}req/s"
    assert [latency(None), latency(math.nan), latency(math.inf), quantity(math.inf, "s")] == ["–", "–", "∞", "∞"]


def test_values_of_several_have_their_names() -> None:
    assert each(["a"], ["1 s"]) == "1 s"
    assert each(["a", "b", "c"], ["1 s", "2 s", "3 s"]) == "1 s (a), 2 s (b) and 3 s (c)"


def test_counts_and_names() -> None:
    assert [counted(1, "cell"), counted(1200, "cell")] == ["1 cell", "1,200 cells"]
    assert printable("a\nb\ud800") == "a\\nb\\ud800"
    assert short("x" * 40, 10) == "x" * 9 + "…"
