"""Which types the text of CSV columns stands for. Knows no files."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from typing import Any

import pyarrow as pa

_INT = re.compile(r"0|-?[1-9][0-9]{0,18}")
_DOUBLE = re.compile(r"-?((?:0|[1-9][0-9]*)(?:\.[0-9]+)?)(?:[eE][+-]?[0-9]{1,3})?")
_MAX_DIGITS = 15
"""That a double holds of any number."""
_BOOLS = {"true": True, "false": False, "True": True, "False": False}


def column_type(texts: Iterable[str]) -> pa.DataType:
    """The narrowest of null, bool, int64, double and string whose values say the same as all texts; empty is null."""
    kinds = {_kind(text) for text in texts if text}
    if not kinds:
        return pa.null()
    if len(kinds) == 1:
        return kinds.pop()
    return pa.float64() if kinds <= {pa.int64(), pa.float64()} else pa.string()


def typed(text: str, kind: pa.DataType) -> Any:
    """The value; the text itself where it is of another type than its column."""
    if not text:
        return None
    found = _kind(text)
    if kind == pa.float64() and found in (pa.int64(), pa.float64()):
        return float(text)
    if found != kind or kind == pa.string():
        return text
    return int(text) if kind == pa.int64() else _BOOLS[text]


def _kind(text: str) -> pa.DataType:
    """A number with leading zeros, or of more digits than its type holds, is text: an article number, or a key."""
    if text in _BOOLS:
        return pa.bool_()
    if _INT.fullmatch(text) and -(2**63) <= int(text) < 2**63:
        return pa.int64()
    return pa.float64() if _is_double(text) else pa.string()


def _is_double(text: str) -> bool:
    found = _DOUBLE.fullmatch(text)
    if found is None or not math.isfinite(float(text)):
        return False
    return sum(map(str.isdigit, found[1])) <= _MAX_DIGITS or repr(float(text)) == text
