from __future__ import annotations

from typing import NamedTuple

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.metrics.running import mean_running, running
from cbatch.metrics.step_table import StepTable
from cbatch.metrics.steps import StepTotals
from cbatch.types import StepRecord
from tests.metrics.factories import make_step


class Step(NamedTuple):
    pause: int
    length: int
    busy: int
    finished: int


STEPS = st.lists(st.builds(Step, *[st.integers(0, 9)] * 4), min_size=1, max_size=12)


def records(steps: list[Step]) -> list[StepRecord]:
    now, made = 0, []
    for pause, length, busy, finished in steps:
        start = now + pause
        now = start + length
        made.append(make_step(start_ns=start, end_ns=now, slots_busy=busy, finished=finished))
    return made


def told(made: list[StepRecord]) -> tuple[np.ndarray, np.ndarray]:
    table = StepTable()
    for record in made:
        table.add(record)
    return running(*map(table.column, ("start_ns", "end_ns", "slots_busy", "finished")))


def test_what_a_step_leaves_runs_until_the_next_one() -> None:
    times, counts = told(records([Step(4, 6, 3, 1), Step(10, 5, 1, 0)]))
    assert list(zip(times.tolist(), counts.tolist(), strict=True)) == [(4, 3), (10, 2), (20, 1), (25, 1)]


def test_the_mean_over_a_window() -> None:
    times, counts = told(records([Step(4, 6, 3, 1), Step(10, 5, 1, 0)]))
    assert mean_running(times, counts, 0, 12) == (6 * 3 + 2 * 2) / 12
    assert mean_running(times, counts, 18, 22) == (2 * 2 + 2 * 1) / 4
    assert mean_running(times, counts, 30, 40) == 1  # what the last step leaves


def test_nothing_runs_without_steps() -> None:
    assert mean_running(*told([]), 0, 10) == 0


@given(STEPS)
def test_over_all_steps_it_is_the_concurrency_of_the_run(steps: list[Step]) -> None:
    made, totals = records(steps), StepTotals()
    for record in made:
        totals.add(record)
    if totals.concurrency is not None:
        start, end = made[0].start_ns, made[-1].end_ns
        assert mean_running(*told(made), start, end) == pytest.approx(totals.concurrency)
