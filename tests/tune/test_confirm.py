"""Two ways in turns, on a made-up machine."""

from __future__ import annotations

from collections.abc import Sequence

from cbatch.config import SchedulerConfig
from cbatch.tune.confirm import PAIRS, Way, confirm
from cbatch.tune.mix import made_up
from cbatch.types import Request
from tests.tune.machines import BF16, F16

ROWS = made_up([10] * 3, [5] * 3, 100)
USUAL, CHOSEN = Way(BF16, 32, SchedulerConfig()), Way(F16, 16, SchedulerConfig())


class Stopwatch:
    def __init__(self) -> None:
        self.order: list[Way] = []

    def run(self, way: Way, requests: Sequence[Request]) -> float:
        assert requests is ROWS
        self.order.append(way)
        return 2.0 if way is USUAL else 1.0


def test_who_goes_first_alternates() -> None:
    watch = Stopwatch()
    found = confirm(USUAL, CHOSEN, ROWS, watch.run, predicted_s=1.1, time_left=lambda: True)
    assert found.ratios == (2.0,) * PAIRS
    assert watch.order == [USUAL, CHOSEN, CHOSEN, USUAL, USUAL, CHOSEN]
    assert (found.rows, found.seconds, found.predicted_s) == (3, 1.0, 1.1)


def test_one_pair_is_run_in_any_case() -> None:
    watch = Stopwatch()
    assert len(confirm(USUAL, CHOSEN, ROWS, watch.run, predicted_s=1.0, time_left=lambda: False).ratios) == 1
