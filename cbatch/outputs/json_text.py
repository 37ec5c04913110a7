"""Values as JSON text, those among them that JSON has no form for. Knows no row."""

from __future__ import annotations

import json
from collections.abc import Mapping
from datetime import date, time, timedelta
from typing import Any

import pyarrow as pa


def to_json(value: Any) -> str:
    """JSON text in UTF-8 characters, not escapes.

    What JSON lacks becomes a string: times in ISO 8601, those that no calendar can show as a count of their unit
    (`4611686018427387904 us`), NaN and infinities as `nan` and `inf`, bytes as the text that they are in UTF-8, with
    escapes for those that aren't.
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
    if isinstance(value, pa.DictionaryScalar):
        return plain(value.value)
    if pa.types.is_map(kind):
        return [[plain(item) for item in pair.values()] for pair in value.values]
    if pa.types.is_struct(kind):
        return {name: plain(item) for name, item in value.items()}
    if pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind):
        return [plain(item) for item in value.values]
    return _of_time(value) if pa.types.is_temporal(kind) else plain(value.as_py())


def _of_time(value: Any) -> Any:
    """Python's times go from year 1 to 9999, have microseconds, and need data of the time zone; Arrow's don't."""
    if getattr(value.type, "unit", None) == "ns":
        return _nanoseconds(value)
    try:
        return plain(value.as_py())
    except (ArithmeticError, LookupError, ValueError):
        return _far_off(value)


def _nanoseconds(value: Any) -> str:
    """With all nine digits."""
    if pa.types.is_duration(value.type):
        seconds, rest = divmod(value.value, 10**9)
        return f"{timedelta(seconds=seconds)}.{rest:09}"
    try:
        return str(value.cast(pa.string())).replace(" ", "T", 1)
    except pa.ArrowException:  # no data of the time zone
        return _far_off(value)


def _far_off(value: Any) -> str:
    """In UTC: a time zone's years would come out wrong."""
    kind = value.type
    if pa.types.is_duration(kind):
        return f"{value.value} {kind.unit}"
    zoned = pa.types.is_timestamp(kind) and kind.tz is not None
    text = str((value.cast(pa.timestamp(kind.unit)) if zoned else value).cast(pa.string()))
    if text.startswith("<"):  # that it is out of range
        unit = "days" if pa.types.is_date32(kind) else getattr(kind, "unit", "ms")
        return f"{value.value} {unit}"
    return text.replace(" ", "T", 1) + ("Z" if zoned else "")
