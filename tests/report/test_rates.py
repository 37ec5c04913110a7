from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.report.rates import SECOND, PerSecond, Rate


def test_a_long_step_is_spread_over_its_seconds() -> None:
    amounts = PerSecond()
    amounts.add(SECOND // 2, 3 * SECOND, 50)
    assert amounts.history(3 * SECOND) == pytest.approx((10, 20, 20))


def test_the_rate_is_of_the_last_whole_seconds() -> None:
    amounts = PerSecond()
    for second in range(8):
        amounts.add(second * SECOND, (second + 1) * SECOND, second)
    assert amounts.rate(8 * SECOND) == pytest.approx((3 + 4 + 5 + 6 + 7) / 5)
    assert amounts.rate(8 * SECOND + SECOND // 2) == amounts.rate(8 * SECOND)


def test_the_first_second_has_a_rate_already() -> None:
    amounts = PerSecond()
    amounts.add(0, SECOND // 4, 10)
    assert amounts.rate(SECOND // 4) == pytest.approx(40)
    assert amounts.rate(0) == 0


def test_a_summary() -> None:
    amounts = PerSecond()
    assert amounts.summary(0) == Rate(0, 0, ())
    for second in range(6):
        amounts.add(second * SECOND, (second + 1) * SECOND, 2 if second == 0 else 8)
    assert amounts.summary(6 * SECOND) == Rate(pytest.approx(8), pytest.approx(7), pytest.approx((2, 8, 8, 8, 8, 8)))  # type: ignore[arg-type]


def test_silence_counts_as_nothing() -> None:
    amounts = PerSecond()
    amounts.add(0, SECOND, 10)
    assert amounts.rate(20 * SECOND) == 0
    assert amounts.history(3 * SECOND) == (10, 0, 0)


def test_old_seconds_are_forgotten() -> None:
    amounts = PerSecond(seconds=3)
    amounts.add(0, SECOND, 7)
    amounts.add(5 * SECOND, 6 * SECOND, 1)
    assert amounts.history(6 * SECOND) == (0, 0, 1)
    assert amounts.total == 8


@given(st.lists(st.tuples(st.integers(0, 2 * SECOND), st.integers(0, 7 * SECOND), st.integers(0, 9999)), max_size=12))
def test_nothing_is_lost_within_the_window(steps: list[tuple[int, int, int]]) -> None:
    amounts, now = PerSecond(), 0
    for gap, length, amount in steps:
        amounts.add(now + gap, now + gap + length, amount)
        now += gap + length
    assert sum(amounts.history(now + 2 * SECOND)) == pytest.approx(sum(amount for _, _, amount in steps))
