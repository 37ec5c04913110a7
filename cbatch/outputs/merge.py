"""Puts results of many files into one order, the newest of each row. Knows no formats.

Rows finish nearly in the order in which they came, so only files whose rows overlap need be in memory at once. Of each
row, nothing but a bit is remembered.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from cbatch.outputs.groups import Group
from cbatch.row_set import RowSet

ORDERS = ("input", "completion")


def merged(groups: Sequence[Group], order: str, columns: Sequence[str] | None = None) -> Iterator[pa.Table]:
    """Every row once, from the last group that has it; `row` must be among the `columns`.

    Ascending by row with the order `input`, else as the groups have them.
    """
    kept = _newest(groups)
    if order == "input":
        yield from _ascending(sorted(kept, key=lambda each: each.first), columns)
    else:
        yield from (each.read(columns) for each in kept)


@dataclass(frozen=True, slots=True)
class _Kept:
    """What is kept of a group."""

    group: Group
    first: int
    """The smallest row number of it."""
    bits: npt.NDArray[np.uint8] | None
    """Which rows, packed; None for all."""

    def read(self, columns: Sequence[str] | None) -> pa.Table:
        table = self.group.read(columns)
        if self.bits is None:
            return table
        return table.filter(pa.array(np.unpackbits(self.bits, count=table.num_rows).astype(bool)))


def _newest(groups: Sequence[Group]) -> list[_Kept]:
    """Of each group the rows that no later one has again."""
    seen = RowSet()
    kept = []
    for group in reversed(groups):
        rows = group.read(["row"])["row"].to_numpy()
        mask = np.array([seen.add(row) for row in reversed(rows.tolist())], bool)[::-1]
        if mask.any():
            kept.append(_Kept(group, int(rows[mask].min()), None if mask.all() else np.packbits(mask)))
    return kept[::-1]


def _ascending(kept: Sequence[_Kept], columns: Sequence[str] | None) -> Iterator[pa.Table]:
    """Of groups ascending by their first row: what lies before the next group's first row is complete."""
    waiting: list[pa.Table] = []
    for number, each in enumerate(kept, 1):
        waiting.append(each.read(columns))
        table = _sorted(pa.concat_tables(waiting, promote_options="default"))
        rows = table["row"].to_numpy()
        ready = int(np.searchsorted(rows, kept[number].first)) if number < len(kept) else len(rows)
        if ready:
            yield table.slice(0, ready)
        waiting = [table.slice(ready)]


def _sorted(table: pa.Table) -> pa.Table:
    rows = table["row"].to_numpy()
    return table if bool(np.all(rows[1:] > rows[:-1])) else table.take(_order(rows))


def _order(rows: npt.NDArray[np.int64]) -> Any:
    return pa.array(np.argsort(rows, kind="stable"))
