from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.outputs.merge import merged


@dataclass
class Rows:
    """A group in memory; a value tells which group a row is of."""

    rows: Sequence[int]
    value: int
    read_whole: list[int] = field(default_factory=list)
    """Values of the groups that were read whole so far, shared among groups."""

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        if columns is None:
            self.read_whole.append(self.value)
        numbers = pa.array(self.rows, pa.int64())
        nested = pa.array([{"v": [self.value]} for _ in self.rows], pa.struct([("v", pa.list_(pa.int64()))]))
        return pa.table({"row": numbers, "nested": nested}).select(columns or ["row", "nested"])


def make_groups(*rows: Sequence[int]) -> list[Rows]:
    read: list[int] = []
    return [Rows(numbers, value, read) for value, numbers in enumerate(rows)]


def collect(groups: Sequence[Rows], order: str) -> list[tuple[int, int]]:
    rows = [row for table in merged(groups, order) for row in table.to_pylist()]
    return [(row["row"], row["nested"]["v"][0]) for row in rows]


def test_input_order() -> None:
    assert collect(make_groups([3, 1], [2, 5], [4]), "input") == [(1, 0), (2, 1), (3, 0), (4, 2), (5, 1)]


def test_completion_order() -> None:
    assert collect(make_groups([3, 1], [2, 5], [4]), "completion") == [(3, 0), (1, 0), (2, 1), (5, 1), (4, 2)]


@pytest.mark.parametrize("order", ["input", "completion"])
def test_the_newest_of_a_row_wins(order: str) -> None:
    assert sorted(collect(make_groups([1, 2, 3], [2], [3, 2]), order)) == [(1, 0), (2, 2), (3, 2)]


def test_nothing_gives_nothing() -> None:
    assert collect([], "input") == collect(make_groups([], []), "input") == []


def test_some_columns() -> None:
    [table] = merged(make_groups([2, 1]), "input", ["row"])
    assert table.to_pydict() == {"row": [1, 2]}


def test_only_groups_that_overlap_are_in_memory() -> None:
    """Rows that finish nearly in order, with one that takes as long as all: it costs one group more."""
    groups = make_groups(*([*range(i * 10 + 1, i * 10 + 11)] for i in range(20)), [200, 0, 201])
    groups[3].rows = [31, 32, 33, 44, 35, 36, 37, 38, 39, 40]
    groups[4].rows = [41, 42, 43, 34, 45, 46, 47, 48, 49, 50]
    groups[-1].rows = [201, 0, 202]
    read, most = groups[0].read_whole, 0
    given_out = 0
    for table in merged(groups, "input"):
        most = max(most, sum(len(groups[value].rows) for value in read) - given_out)
        given_out += table.num_rows
    assert given_out == 203
    assert most <= 10 + 10 + 3


@given(st.lists(st.lists(st.integers(1, 30), unique=True, max_size=8), max_size=8))
def test_each_row_once_and_the_newest(rows: list[list[int]]) -> None:
    newest = {row: value for value, numbers in enumerate(rows) for row in numbers}
    assert collect(make_groups(*rows), "input") == sorted(newest.items())
    in_order = [(row, value) for value, numbers in enumerate(rows) for row in numbers if newest[row] == value]
    assert collect(make_groups(*rows), "completion") == in_order
