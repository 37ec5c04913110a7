"""The rates of a sweep."""

from __future__ import annotations

import pytest

from cbatch.errors import UsageError
from cbatch.replay import parse_rates


@pytest.mark.parametrize(
    ("text", "rates"),
    [
        ("1:16:2x", (1, 2, 4, 8, 16)),
        ("1:15:2x", (1, 2, 4, 8)),
        ("1:16:5", (1, 6, 11, 16)),
        ("0.1:0.3:0.1", (0.1, 0.2, pytest.approx(0.3))),
        ("2:2:2x", (2,)),
        ("3", (3,)),
        ("4,1,2.5,1", (1, 2.5, 4)),
    ],
)
def test_rates(text: str, rates: tuple[float, ...]) -> None:
    assert parse_rates(text) == rates


@pytest.mark.parametrize(
    "text",
    ["", "a", "1:2", "1:2:3:4", "2:1:2x", "1:4:1x", "1:4:0", "1:4:-1", "0:4:2x", "0", "-1", "inf", "1,nan", "1:inf:2x"],
)
def test_what_makes_no_rates_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(UsageError, match=r"--sweep-rate .*1:16:2x"):
        parse_rates(text)


def test_a_sweep_has_its_limits() -> None:
    with pytest.raises(UsageError, match="makes 1,001 rates"):
        parse_rates("1:2:0.001")
