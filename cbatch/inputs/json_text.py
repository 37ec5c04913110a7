"""A JSON text to a JSON value that can be written again as UTF-8 JSON. Knows no fields."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable
from itertools import chain
from typing import Any, NoReturn

from cbatch.inputs.fault import Fault, shorten
from cbatch.inputs.lines import text_of

MAX_DEPTH = 100
"""Levels below the top: well within what Python's JSON reader and writer can do from any depth of its stack."""


def decode(raw: bytes, unit: str = "line") -> Any:
    """The value of a line, or of what `unit` says; it may not be fit to be written (`check_writable`).

    Raises `Fault` with `line_too_long`, `invalid_utf8` or `invalid_json`.
    """
    return decode_text(text_of(raw, unit), unit)


def decode_text(text: str, unit: str) -> Any:
    """The value of a JSON text. Raises `Fault` with `invalid_json`."""
    try:
        return _DECODER.decode(text)
    except json.JSONDecodeError as error:
        raise Fault("invalid_json", _explain(error, unit)) from None
    except RecursionError:
        raise _too_deep() from None
    except ValueError:  # Python bounds the digits of an integer, since converting them takes quadratic time
        raise Fault("invalid_json", "a whole number has too many digits: write it as a string") from None


def check_writable(value: Any) -> None:
    """Raises `Fault`: `invalid_utf8` where a string has no UTF-8 form, `invalid_json` where values lie too deep."""
    level = [value]
    for _ in range(MAX_DEPTH + 1):
        for item in level:
            if isinstance(item, str):
                _check_string(item)
        level = [child for item in level for child in _children(item)]
        if not level:
            return
    raise _too_deep()


def _children(value: Any) -> Iterable[Any]:
    if isinstance(value, dict):
        return chain(value.keys(), value.values())
    return value if isinstance(value, list) else ()


def _check_string(text: str) -> None:
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        found = f"a string holds half a surrogate pair, \\u{ord(text[error.start]):04x}, at character {error.start + 1}"
        raise Fault("invalid_utf8", f"{found}: write both halves, or the character itself") from None


def _too_deep() -> Fault:
    return Fault("invalid_json", f"lists and objects are nested more than {MAX_DEPTH} levels deep: flatten them")


def _explain(error: json.JSONDecodeError, unit: str) -> str:
    rest = error.doc[error.pos : error.pos + 20]
    found = repr(rest) if rest else f"the end of the {unit}"
    fix = "write one JSON string or object a line" if unit == "line" else "write a JSON value"
    return f"{error.msg.removesuffix(' at')} at column {error.pos + 1}, found {found}: {fix}"


def _constant(name: str) -> NoReturn:
    raise Fault("invalid_json", f"{name} isn't valid JSON: give a number or null")


def _finite(literal: str) -> float:
    number = float(literal)
    if not math.isfinite(number):
        raise Fault("invalid_json", f"{shorten(literal, 60)} is beyond a 64-bit float: give a smaller number")
    return number


_DECODER = json.JSONDecoder(parse_constant=_constant, parse_float=_finite)
