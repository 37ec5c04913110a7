"""The search for the highest rate: on a threshold, and on queues in virtual time."""

from __future__ import annotations

import math

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics.objectives import parse_objectives
from cbatch.replay import bracket, find_capacity, holds, may_hold
from tests.replay.virtual import play, poisson
from tests.report.replays import make_replay


@given(st.floats(0.02, 400), st.floats(0.5, 20))
def test_a_threshold_is_found_to_within_the_tolerance(threshold: float, start: float) -> None:
    trials: list[float] = []

    def holds(rate: float) -> bool:
        trials.append(rate)
        return rate <= threshold

    found = find_capacity(holds, start=start)
    assert found.rate is not None
    assert found.failing is not None
    assert found.rate <= threshold < found.failing <= found.rate * 1.05 * (1 + 1e-9)
    assert len(trials) == len(set(trials)) <= 22


def test_what_a_sweep_knows_is_not_tried_again() -> None:
    tried = {1.0: True, 2.0: True, 4.0: False, 8.0: False}
    trials: list[float] = []

    def holds(rate: float) -> bool:
        trials.append(rate)
        return rate < 3

    found = find_capacity(holds, start=1, tried=tried)
    assert found.rate == pytest.approx(3, rel=0.05)
    assert all(2 < rate < 4 for rate in trials)


def test_where_all_hold_or_none_there_is_no_other_side() -> None:
    assert find_capacity(lambda _: True, start=1).failing is None
    assert find_capacity(lambda _: False, start=1).rate is None


def test_a_rate_above_one_that_failed_does_not_count() -> None:
    assert bracket({1: True, 2: False, 4: True}) == (1, 2)
    assert bracket({2: False, 4: True}) == (None, 2)
    assert bracket({1: True}) == (1, None)
    assert bracket({}) == (None, None)


def test_a_rate_holds_where_enough_requests_meet_the_objectives_and_the_queue_does_not_grow() -> None:
    assert holds(make_replay(attainment=0.99), 0.99) is True
    assert holds(make_replay(attainment=0.989), 0.99) is False
    assert holds(make_replay(attainment=1.0, saturated=True), 0.99) is False
    assert holds(make_replay(attainment=None), 0.99) is None


def test_a_rate_at_which_nothing_arrives_is_too_low_to_fail() -> None:
    """As with a short --duration: the search goes up until requests come."""

    def attainment(rate: float) -> float | None:
        return None if rate < 10 else 1.0 if rate <= 100 else 0.5

    found = find_capacity(lambda rate: may_hold(make_replay(attainment=attainment(rate)), 0.99), start=1)
    assert found.rate == pytest.approx(100, rel=0.05)
    assert not may_hold(make_replay(attainment=0.5), 0.99)
    assert not may_hold(make_replay(attainment=1.0, saturated=True), 0.99)


def share_within(waits: int, utilisation: float) -> float:
    """Share of customers of an M/D/1 queue that wait at most `waits` service times (Erlang 1909)."""
    terms = ((-utilisation * left) ** k / math.factorial(k) * math.exp(utilisation * left)
             for k, left in enumerate(range(waits, -1, -1)))  # fmt: skip
    return (1 - utilisation) * sum(terms)


def test_the_capacity_of_a_queue_in_virtual_time() -> None:
    """One server, 10 ms a request: the highest rate at which 90 % get their token within 30 ms, 20 of them queued."""
    objectives = parse_objectives(["ttft:30"])

    def holds(rate: float) -> bool:
        summary, _ = play(poisson(rate, 6000), objectives=objectives)
        assert summary.attainment is not None
        return summary.attainment >= 0.9

    found = find_capacity(holds, start=50, tolerance=0.03)
    theory = next(rate for rate in range(100) if share_within(2, rate / 100) < 0.9)
    assert found.rate == pytest.approx(theory, rel=0.05)
