"""Carried fields as columns: which get one, of what type, and where a value goes that its column can't take.

A later row may bring any field and any value; what has no column, or doesn't fit its column, goes into the JSON
object `carried_json`, so nothing is lost. Only "null" and "not given" look the same.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

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


@dataclass(frozen=True, slots=True)
class Column:
    """A column for one carried field."""

    field: str
    """Its name in the input."""
    name: str
    """Its name in the results."""
    kind: str
    """`bool`, `int64`, `double`, `string`, or `json` for JSON text."""

    def takes(self, value: Any) -> bool:
        """Whether the column can hold the JSON value without changing it (1 and 1.0 are the same)."""
        if value is None or self.kind == "json":
            return True
        kind = _kind(value)
        return kind == self.kind or (self.kind == "double" and kind == "int64" and int(float(value)) == value)

    def encode(self, value: Any) -> Any:
        """The cell for a value that the column takes."""
        return to_json(value) if self.kind == "json" and value is not None else value


def plan_columns(sample: Sequence[RowRef]) -> tuple[Column, ...]:
    """Columns for the fields of the sample's rows, in order of appearance, at most `MAX_COLUMNS`.

    A field's values agree on bool, int64, double (numbers of which one is a float) or string, null aside; else, and
    where all are null, its column holds JSON text. A name that is taken, in any case since SQL ignores case, gets
    `input_` before it.
    """
    kinds: dict[str, str | None] = {}
    for ref in sample:
        for field, value in ref.carried.items():
            if field in kinds or len(kinds) < MAX_COLUMNS:
                kinds[field] = _common(kinds.get(field), _kind(value))
    taken = set(RESULT_COLUMNS)
    return tuple(Column(field, _free_name(field, taken), kind or "json") for field, kind in kinds.items())


def cells(columns: Sequence[Column], carried: Mapping[str, Any]) -> dict[str, Any]:
    """One row's cells by column name, `carried_json` among them."""
    found: dict[str, Any] = {}
    rest = dict(carried)
    for column in columns:
        value = rest.get(column.field)
        if column.takes(value):
            found[column.name] = column.encode(value)
            rest.pop(column.field, None)
    found["carried_json"] = to_json(rest) if rest else None
    return found


def to_json(value: Any) -> str:
    """JSON text in UTF-8 characters, not escapes."""
    return json.dumps(value, ensure_ascii=False)


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
