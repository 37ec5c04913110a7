"""Carried fields as columns: which get one, of what type, and where a value goes that its column can't take.

A later row may bring any field and any value; what has no column, or doesn't fit its column, goes into the JSON
object `carried_json`, so nothing is lost. Only "null" and "not given" look the same.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from cbatch.outputs.json_text import to_json
from cbatch.types import RowRef

RESULT_COLUMNS = (
    "row",
    "id",
    "prompt_tokens",
    "truncated_tokens",
    "output_text",
    "output_tokens",
    "dropped_tokens",
    "finish_reason",
    "error_code",
    "error",
    "samples",
    "logprobs",
    "prompt_logprobs",
    "carried_json",
)
MAX_COLUMNS = 256
"""Rows whose field names are data would else make a column each."""

_PLAIN = {pa.bool_(): "bool", pa.int64(): "int64", pa.float64(): "double", pa.string(): "string"}
_SIMPLE = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_float32,
    pa.types.is_float64,
    pa.types.is_string,
    pa.types.is_large_string,
)
_STORABLE = (
    *_SIMPLE,
    pa.types.is_decimal128,
    pa.types.is_decimal256,
    pa.types.is_binary,
    pa.types.is_large_binary,
    pa.types.is_fixed_size_binary,
    pa.types.is_date32,
    pa.types.is_time,
    pa.types.is_timestamp,
)


@dataclass(frozen=True, slots=True)
class Column:
    """A column for one carried field."""

    field: str
    """Its name in the input."""
    name: str
    """Its name in the results."""
    kind: str
    """`bool`, `int64`, `double`, `string`, `json` for JSON text, or `arrow` for the type of a typed source."""
    type: pa.DataType | None = None
    """With `arrow`, which one."""

    def takes(self, value: Any) -> bool:
        """Whether the column can hold the value without changing it (1 and 1.0 are the same)."""
        if value is None or self.kind == "json":
            return True
        if self.kind == "arrow":
            return _fits(value, self.type)
        kind = _kind(value)
        return kind == self.kind or (self.kind == "double" and kind == "int64" and int(float(value)) == value)

    def encode(self, value: Any) -> Any:
        """The cell for a value that the column takes."""
        if value is None:
            return None
        if isinstance(value, pa.Scalar) and self.kind == "arrow":
            return value if value.type == self.type else value.cast(self.type)
        return to_json(value) if self.kind == "json" else value


def plan_columns(
    sample: Sequence[RowRef], carried_types: Mapping[str, pa.DataType] | None = None
) -> tuple[Column, ...]:
    """Columns for the fields of typed sources, then for those of the sample's rows in order of appearance.

    The latter up to `MAX_COLUMNS` of both. A typed source's column has its type, where Parquet can store that. Else a
    field's values agree on bool, int64, double (numbers of which one is a float) or string, null aside; else, and
    where all are null, its column holds JSON text. A name that is taken, in any case since SQL ignores case, gets
    `input_` before it.
    """
    types = {field: _finer(kind) for field, kind in (carried_types or {}).items()}
    types = {field: kind for field, kind in types.items() if is_storable(kind)}
    kinds: dict[str, str | None] = {field: _PLAIN.get(kind, "arrow") for field, kind in types.items()}
    for ref in sample:
        for field, value in ref.carried.items():
            if field in types:
                continue
            if field in kinds or len(kinds) < MAX_COLUMNS:
                kinds[field] = _common(kinds.get(field), _kind(value))
    taken = set(RESULT_COLUMNS)
    return tuple(
        Column(field, _free_name(field, taken), kind or "json", types[field] if kind == "arrow" else None)
        for field, kind in kinds.items()
    )


def cells(columns: Sequence[Column], carried: Mapping[str, Any]) -> dict[str, Any]:
    """One row's cells by column name, `carried_json` among them."""
    found: dict[str, Any] = {}
    rest = dict(carried)
    for column in columns:
        value = _as_python(rest.get(column.field))
        if column.takes(value):
            found[column.name] = column.encode(value)
            rest.pop(column.field, None)
    found["carried_json"] = to_json(rest) if rest else None
    return found


def _as_python(value: Any) -> Any:
    """Arrow's values of simple types as Python's; others stay."""
    if not isinstance(value, pa.Scalar):
        return value
    simple = not value.is_valid or any(test(value.type) for test in _SIMPLE)
    return value.as_py() if simple else value


def is_storable(kind: pa.DataType) -> bool:
    """Whether Parquet keeps the Arrow type as it is."""
    is_ = pa.types
    if is_.is_struct(kind):
        return kind.num_fields > 0 and all(is_storable(kind.field(i).type) for i in range(kind.num_fields))
    if is_.is_map(kind):
        return is_storable(kind.key_type) and is_storable(kind.item_type)
    if is_.is_list(kind) or is_.is_large_list(kind) or is_.is_fixed_size_list(kind):
        return is_storable(kind.value_type)
    if pa.types.is_duration(kind):
        return True
    return any(test(kind) for test in _STORABLE) and getattr(kind, "unit", None) != "s"


def _finer(kind: Any) -> Any:
    """Parquet's times have milliseconds at least."""
    if pa.types.is_timestamp(kind) and kind.unit == "s":
        return pa.timestamp("ms", kind.tz)
    return pa.time32("ms") if kind == pa.time32("s") else kind


def _kind(value: Any) -> str | None:
    """The narrowest kind that holds the value; None for null."""
    if value is None:
        return None
    if isinstance(value, bool):
        return "bool"
    if isinstance(value, int):
        return "int64" if -(2**63) <= value < 2**63 else "json"
    return "double" if isinstance(value, float) else "string" if isinstance(value, str) else "json"


def _common(a: str | None, b: str | None) -> str | None:
    if a is None or b is None or a == b:
        return a or b
    return "double" if {a, b} == {"int64", "double"} else "json"


def _free_name(name: str, taken: set[str]) -> str:
    while name.casefold() in taken:
        name = f"input_{name}"
    taken.add(name.casefold())
    return name


def _fits(value: Any, kind: Any) -> bool:
    """Whether a value of Python or Arrow stays the same in such a column."""
    try:
        if isinstance(value, pa.Scalar):
            return value.type == kind or bool(value.cast(kind).cast(value.type).equals(value))
        back = pa.scalar(value, kind).as_py()
    except (pa.ArrowException, TypeError, ValueError, OverflowError):
        return False
    return bool(back == value or (back != back and value != value))
