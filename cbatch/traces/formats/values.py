"""Numbers, texts and lists out of a record, checked. Knows no format.

A value is what CSV (strings), JSON (with floats as Decimal) or Parquet give. Every function raises `BadRow`.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from decimal import ROUND_HALF_EVEN, Decimal
from typing import Any

from cbatch.traces.check import MAX_ARRIVAL_NS, MAX_TOKENS
from cbatch.traces.formats.format import BadRow

_NUMBER = re.compile(r"[+-]?(\d+(\.\d*)?|\.\d+)([eE][+-]?\d{1,6})?", re.ASCII)


def show(value: Any) -> str:
    """A value in a message: scalars as Python would have them, shortened; containers by their kind."""
    if isinstance(value, Mapping):
        return "an object"
    if isinstance(value, (list, tuple)):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    text = str(value) if isinstance(value, Decimal) else repr(value)
    return text if len(text) <= 60 else f"{text[:29]}…{text[-29:]}"


def fields_of(record: Any) -> Mapping[str, Any]:
    if not isinstance(record, dict):
        raise BadRow(f"the record is {show(record)}: give one object")
    return record


def field(row: Mapping[str, Any], column: str) -> Any:
    try:
        return row[column]
    except KeyError:
        found = ", ".join(show(name) for name in list(row)[:8]) or "nothing"
        raise BadRow(f"{column} is missing (found {found}): add it") from None


def ns_of(row: Mapping[str, Any], column: str, unit_ns: int) -> int:
    """A time in units of `unit_ns` as ns >= 0: exact, but what lies below 1 ns is rounded (half to even)."""
    value = field(row, column)
    number = _number(value, column, "a time")
    if number.adjusted() > 20:
        raise BadRow(f"{column} is {show(value)}, too large for a time: give a smaller number")
    ns = int((number * unit_ns).to_integral_value(ROUND_HALF_EVEN))
    if ns > MAX_ARRIVAL_NS:
        raise BadRow(f"{column} is {show(value)}, which is over 146 years: check the time unit")
    return ns


def count_of(row: Mapping[str, Any], column: str) -> int:
    """A number of tokens, 0 included; `472.0` is a whole number."""
    value = field(row, column)
    if isinstance(value, str) and len(value) < 10 and value.isascii() and value.isdigit():
        return int(value)
    number = _number(value, column, "a number of tokens")
    if number.adjusted() > 10 or number > MAX_TOKENS:
        raise BadRow(f"{column} is {show(value)}: give at most {MAX_TOKENS} tokens")
    if number != number.to_integral_value():
        raise BadRow(f"{column} is {show(value)}: give a whole number of tokens")
    return int(number)


def _number(value: Any, column: str, wanted: str) -> Decimal:
    """A finite number >= 0."""
    number = None
    if isinstance(value, str) and _NUMBER.fullmatch(value.strip()):
        number = Decimal(value.strip())
    elif isinstance(value, float):
        number = Decimal(repr(value))
    elif isinstance(value, (int, Decimal)) and not isinstance(value, bool):
        number = Decimal(value)
    if number is None or not number.is_finite():
        raise BadRow(f"{column} is {show(value)}: give {wanted} as a number")
    if number < 0:
        raise BadRow(f"{column} is {show(value)}, which is negative: give 0 or more")
    return number


def text_of(row: Mapping[str, Any], column: str) -> str:
    """A text that isn't empty and has a UTF-8 form."""
    value = field(row, column)
    if not isinstance(value, str):
        raise BadRow(f"{column} is {show(value)}: give one string")
    if not value:
        raise BadRow(f"{column} is empty: give some text")
    return encodable(value, column)


def encodable(text: str, column: str) -> str:
    """`text`, which may not hold half a surrogate pair."""
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"half a surrogate pair, \\u{ord(text[error.start]):04x}, at character {error.start + 1}"
        raise BadRow(f"{column} holds {found}: write both halves, or the character itself") from None
    return text


def label_of(row: Mapping[str, Any], column: str) -> str | None:
    """An id as text; None where the row has none."""
    value = row.get(column)
    if value is None or value == "":
        return None
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        raise BadRow(f"{column} is {show(value)}: give a string or a whole number")
    return encodable(str(value), column)


def blocks_of(row: Mapping[str, Any], column: str) -> tuple[int, ...]:
    """Block ids, int64; empty where the row has none."""
    value = row.get(column)
    if value is None:
        return ()
    if not isinstance(value, list):
        raise BadRow(f"{column} is {show(value)}: give a list of whole numbers")
    for block in value:
        if type(block) is not int or not -(2**63) <= block < 2**63:
            raise BadRow(f"{column} holds {show(block)}: give whole numbers of at most 64 bits")
    return tuple(value)
