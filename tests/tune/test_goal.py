"""What to tune for: rows that stand for a job."""

from __future__ import annotations

import pytest

from cbatch.tune.goal import Goal, spread
from cbatch.tune.mix import END, as_run, made_up


def test_rows_that_are_simulated_are_from_all_over() -> None:
    rows = made_up(range(1, 3001), [10] * 3000, 100)
    sample = Goal(rows).sample(64)
    assert len(sample) == 500
    assert [int(r.prompt.size) for r in sample[:3]] == [1, 7, 13]
    long = Goal(made_up([8] * 3000, [1000] * 3000, 100))
    assert [len(long.sample(slots)) for slots in (1, 8, 64)] == [20, 24, 192]


@pytest.mark.parametrize(("count", "taken"), [(4, [0, 2, 5, 7]), (10, list(range(10))), (12, list(range(10)))])
def test_spread(count: int, taken: list[int]) -> None:
    rows = made_up([5] * 10, [5] * 10, 100)
    assert spread(rows, count) == [rows[i] for i in taken]


def test_what_a_run_sees_of_a_row() -> None:
    (row,) = made_up([5], [8], 100)
    seen = as_run(row, {row.id: 200})
    assert seen.sampling.max_tokens == 200
    assert seen.is_end(END)
    assert as_run(row, {}) is row
