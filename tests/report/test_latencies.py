from __future__ import annotations

import math

import pytest

from cbatch.metrics import Distribution, Objectives
from cbatch.report.latencies import milliseconds, objectives_text, significant, too_few


@pytest.mark.parametrize(
    ("value", "text"),
    [
        (None, "-"),
        (0, "0"),
        (0.2514, "0.251"),
        (4, "4.00"),
        (12.04, "12.0"),
        (99.94, "99.9"),
        (99.96, "100"),
        (1320.4, "1,320"),
    ],
)
def test_three_digits(value: float | None, text: str) -> None:
    assert significant(value) == text


@pytest.mark.parametrize(
    ("ns", "text"),
    [
        (None, "-"),
        (math.inf, "inf"),
        (0, "0 ms"),
        (31_200, "0.0312 ms"),
        (8_100_000, "8.10 ms"),
        (810_000_000, "810 ms"),
        (999_400_000, "999 ms"),
        (999_600_000, "1.00 s"),
        (1_254_000_000, "1.25 s"),
        (3_600_000_000_000, "3,600 s"),
    ],
)
def test_latencies(ns: float | None, text: str) -> None:
    assert milliseconds(ns) == text


def test_objectives() -> None:
    assert objectives_text(Objectives({"ttft": 500e6, "tpot": 12.5e6})) == "TTFT 500 ms, TPOT 12.5 ms"


def test_a_dash_is_explained_once_where_there_is_one() -> None:
    few, enough = (Distribution.of(range(n), (50.0, 99.0, 99.9)) for n in (50, 1000))
    assert too_few([few, few, enough]) == "- stands for too few: p99 needs 100 values, p99.9 needs 1,000 values."
    assert too_few([few], {50.0, 99.0}) == "- stands for too few: p99 needs 100 values."
    assert too_few([enough]) is None
    assert too_few([few], {50.0}) is None
