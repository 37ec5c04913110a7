"""Applies a condition to rows that have no columns, such as those of JSONL. Knows no files."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

import pyarrow as pa

from cbatch.inputs.fault import Fault, show
from cbatch.inputs.where import Mismatch, Where

_KINDS: dict[type, pa.DataType] = {
    type(None): pa.null(),
    bool: pa.bool_(),
    int: pa.int64(),
    float: pa.float64(),
    str: pa.string(),
}
_OTHER = pa.struct([])
"""Of lists and objects, which only `is null` can be asked of."""


def find_matches(where: Where, rows: Sequence[Mapping[str, Any]]) -> list[bool | Fault]:
    """For each row whether it meets the condition, or why that can't be told; a field that a row lacks is null.

    Rows whose fields are of the same types are looked at together.
    """
    groups: dict[tuple[pa.DataType, ...], list[int]] = defaultdict(list)
    for index, row in enumerate(rows):
        groups[tuple(_type_of(row.get(name)) for name in where.fields)].append(index)
    found: list[bool | Fault] = [False] * len(rows)
    for types, indices in groups.items():
        for index, verdict in zip(indices, _verdicts(where, types, [rows[i] for i in indices]), strict=True):
            found[index] = verdict
    return found


def _verdicts(where: Where, types: Sequence[pa.DataType], rows: Sequence[Mapping[str, Any]]) -> Sequence[bool | Fault]:
    """Of rows whose fields have these types."""
    columns = {
        name: _column([row.get(name) for row in rows], kind) for name, kind in zip(where.fields, types, strict=True)
    }
    try:
        return [bool(verdict) for verdict in where.mask(columns, len(rows))]
    except Mismatch as mismatch:
        return [_fault(mismatch, row) for row in rows]


def _fault(mismatch: Mismatch, row: Mapping[str, Any]) -> Fault:
    values = ", ".join(f"{name} is {show(row.get(name))}" for name in mismatch.fields)
    return Fault("where_failed", f"{values}: {mismatch.problem} in the --where condition")


def _type_of(value: Any) -> pa.DataType:
    if isinstance(value, int) and not isinstance(value, bool) and not -(2**63) <= value < 2**63:
        return pa.float64()
    return _KINDS.get(type(value), _OTHER)


def _column(values: list[Any], kind: pa.DataType) -> Any:
    if kind == _OTHER:
        return pa.array([{}] * len(values), kind)
    return pa.array([_as_float(value) for value in values] if kind == pa.float64() else values, kind)


def _as_float(value: float) -> float:
    try:
        return float(value)
    except OverflowError:  # of a whole number
        return float("inf") if value > 0 else float("-inf")
