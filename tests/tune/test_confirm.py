"""Two ways in turns, on a made-up machine."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from cbatch.config import SchedulerConfig
from cbatch.tune.confirm import Times, Way, confirm, rows_in_turns, undisturbed
from cbatch.tune.mix import made_up
from cbatch.types import Request
from tests.tune.machines import BF16, F16

ROWS = made_up([100] * 96, [50] * 96, 100)
USUAL, CHOSEN = Way(BF16, 32, SchedulerConfig()), Way(F16, 16, SchedulerConfig())


class Stopwatch:
    def __init__(self) -> None:
        self.order: list[Way] = []

    def run(self, way: Way, requests: Sequence[Request]) -> Times:
        assert requests is ROWS
        self.order.append(way)
        return [20, 180] if way is USUAL else [40, 60]


def test_who_goes_first_alternates() -> None:
    watch = Stopwatch()
    found = confirm(USUAL, CHOSEN, ROWS, watch.run, range(3))
    assert (found.ratio, found.pairs) == (2.0, (2.0,) * 3)
    assert watch.order == [USUAL, CHOSEN, CHOSEN, USUAL, USUAL, CHOSEN]
    assert (found.setting, found.slots, found.usual_setting, found.usual_slots) == (F16, 16, BF16, 32)
    assert found.holds


def test_what_is_slower_doesnt_hold() -> None:
    assert not confirm(CHOSEN, USUAL, ROWS, Stopwatch().run, range(1)).holds


def test_a_step_counts_as_it_was_when_nothing_disturbed_it() -> None:
    assert undisturbed([[10, 90, 10], [70, 10, 10]]) == 30


def test_runs_that_took_other_steps_are_compared_whole() -> None:
    runs = iter([[20, 90], [10, 30], [25, 15], [10, 40]])
    found = confirm(USUAL, CHOSEN, ROWS, lambda *_: next(runs), range(2))  # theirs, ours, ours, theirs
    assert found.ratio == pytest.approx((10 + 40) / (10 + 15))
    runs = iter([[20, 90], [10, 30], [40], [10, 40]])
    found = confirm(USUAL, CHOSEN, ROWS, lambda *_: next(runs), range(2))
    assert found.ratio == pytest.approx(50 / 40)


def test_rows_fill_the_slots_of_both() -> None:
    def count(usual: int, chosen: int) -> int:
        ways = Way(BF16, usual, SchedulerConfig()), Way(F16, chosen, SchedulerConfig())
        return len(rows_in_turns(made_up([9] * 1000, [5] * 1000, 50), *ways, 0.1, 1000.0))

    assert [count(32, 32), count(32, 16), count(32, 24), count(32, 64), count(32, 63)] == [32, 32, 96, 64, 128]


def test_whole_rows_where_there_is_time_for_two_pairs() -> None:
    rows = rows_in_turns(ROWS, USUAL, CHOSEN, 0.1, 2.5 * 32 * 0.1)
    assert all(any(row is each for each in ROWS) for row in rows)
    assert rows == ROWS[::3]


@pytest.mark.parametrize("left_s", [1.0, 2.0, 4.0, 6.0, 7.0])
def test_rows_are_shortened_to_what_is_left(left_s: float) -> None:
    rows = rows_in_turns(ROWS, USUAL, CHOSEN, 0.1, left_s)
    share = sum(row.prompt.size + row.sampling.max_tokens for row in rows) / (32 * 150)
    assert 0.14 < share < 1
    assert share * 32 * 0.1 < left_s


def test_without_time_for_a_pair_there_are_none() -> None:
    assert rows_in_turns(ROWS, USUAL, CHOSEN, 0.1, 0.5) == []
    assert rows_in_turns(ROWS, USUAL, CHOSEN, 0.1, -3.0) == []
