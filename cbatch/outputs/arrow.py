"""Cells and columns as Arrow makes them fastest. Knows no table.

A list of structs is a cell that is made at once, as an array of length 1. As dictionaries, what waits for its row group
to be full would take many times the memory, and writing it would hold up the engine for seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def column(values: Sequence[Any], kind: Any) -> Any:
    """An array of such a type: of Python values, or of cells that are made already and None. One that is, stays."""
    if isinstance(values, pa.Array):
        return values
    if any(isinstance(value, pa.Array) for value in values):
        return pa.concat_arrays([pa.nulls(1, kind) if value is None else value for value in values])
    return pa.array(values, kind)


def list_cell(kind: Any, fields: Sequence[Any]) -> Any:
    """A cell of such a type, a list of structs, of the structs' fields in order."""
    found = structs(kind, fields)
    return pa.ListArray.from_arrays(pa.array([0, len(found)], pa.int32()), found, type=kind)


def structs(kind: Any, fields: Sequence[Any]) -> Any:
    """Elements of such lists."""
    element = list(kind.value_type)
    arrays = [column(values, field.type) for values, field in zip(fields, element, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=element)
