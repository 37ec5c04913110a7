"""What there is time for, on a clock that is told."""

from __future__ import annotations

import pytest

from cbatch.clock import VirtualClock
from cbatch.tune.budget import Budget


def test_shares_are_moments() -> None:
    clock = VirtualClock()
    budget = Budget(clock, 100.0)
    half = budget.until(0.5)
    clock.advance(49 * 10**9)
    assert half()
    assert budget.left_s(0.5) == 1
    clock.advance(10**9)
    assert not half()
    assert budget.left_s() == 50


@pytest.mark.parametrize(("seconds", "rounds"), [(1.0, 5), (2.0, 5), (3.0, 3), (5.0, 2), (6.0, 1), (60.0, 1)])
def test_a_round_is_begun_if_one_as_long_as_the_last_fits(seconds: float, rounds: int) -> None:
    clock = VirtualClock()
    budget = Budget(clock, 20.0)
    done = []
    for number in budget.rounds(0.5, 5):
        clock.advance(round(seconds * 1e9))
        done.append(number)
    assert done == list(range(rounds))
