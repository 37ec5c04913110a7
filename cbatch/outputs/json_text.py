"""Values as JSON text, those among them that JSON has no form for. Knows no row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time
from typing import Any

import pyarrow as pa


def to_json(value: Any) -> str:
    """JSON text in UTF-8 characters, not escapes.

    What JSON lacks becomes a string: times in ISO 8601, NaN and infinities as `nan` and `inf`, bytes as the text that
    they are in UTF-8, with escapes for those that aren't.
    """
    try:
        return json.dumps(value, ensure_ascii=False, allow_nan=False)
    except (TypeError, ValueError):
        return json.dumps(plain(value), ensure_ascii=False, allow_nan=False)


def plain(value: Any) -> Any:
    """The value as JSON has it."""
    if isinstance(value, pa.Scalar):
        return _of_scalar(value)
    if value is None or isinstance(value, bool | int | str):
        return value
    if isinstance(value, float):
        return value if abs(value) < float("inf") else str(value)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, bytes):
        return value.decode("utf-8", "backslashreplace")
    return value.isoformat() if isinstance(value, date | time) else str(value)


def _of_scalar(value: Any) -> Any:
    if not value.is_valid:
        return None
    kind = value.type
    if pa.types.is_timestamp(kind) and kind.unit == "ns":  # more digits than Python's times have
        return str(value.cast(pa.string())).replace(" ", "T", 1)
    if pa.types.is_map(kind):
        return [[plain(item) for item in pair.values()] for pair in value.values]
    if pa.types.is_struct(kind):
        return {name: plain(item) for name, item in value.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [plain(item) for item in value.values]
    return plain(value.as_py())
