"""Cells and columns as Arrow makes them fastest. Knows no table.

A list of structs is a cell that is made at once, as an array of length 1. As dictionaries, what waits for its row group
to be full would take many times the memory, and writing it would hold up the engine for seconds.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pyarrow as pa


def column(values: Sequence[Any], kind: Any) -> Any:
    """An array of such a type: of Python values, or of cells that are made already and None. One that is, stays.

    Half a surrogate pair, as Python gives it for a byte of a file name that isn't UTF-8, becomes an escape.
    """
    if isinstance(values, pa.Array):
        return values
    if any(isinstance(value, pa.Array) for value in values):
        return pa.concat_arrays([pa.nulls(1, kind) if value is None else value for value in values])
    try:
        return pa.array(values, kind)
    except UnicodeEncodeError:
        return pa.array([_whole(value) if isinstance(value, str) else value for value in values], kind)


def _whole(text: str) -> str:
    return text.encode("utf-8", "backslashreplace").decode("utf-8")


def list_cell(kind: Any, fields: Sequence[Any]) -> Any:
    """A cell of such a type, a list of structs, of the structs' fields in order."""
    found = structs(kind, fields)
    return pa.ListArray.from_arrays(pa.array([0, len(found)], pa.int32()), found, type=kind)


def structs(kind: Any, fields: Sequence[Any]) -> Any:
    """Elements of such lists."""
    return struct_column(kind.value_type, fields)


def struct_column(kind: Any, fields: Sequence[Any]) -> Any:
    """A column of structs of such a type, of the structs' fields in order."""
    element = list(kind)
    arrays = [column(values, field.type) for values, field in zip(fields, element, strict=True)]
    return pa.StructArray.from_arrays(arrays, fields=element)


def batch(schema: pa.Schema, columns: Sequence[Any]) -> pa.RecordBatch:
    """Rows of a table, of its columns in order: Python values, or arrays."""
    arrays = [column(values, field.type) for values, field in zip(columns, schema, strict=True)]
    return pa.RecordBatch.from_arrays(arrays, schema=schema)
