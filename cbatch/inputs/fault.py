"""How code that reads one row says what is wrong with it. Never leaves this package: it ends as a `RowFault`."""

from __future__ import annotations

from typing import Any

import pyarrow as pa


class Fault(Exception):
    """One row can't be run. `code` is machine-readable, `message` has the value and the fix."""

    def __init__(self, code: str, message: str) -> None:
        super().__init__(message)
        self.code = code
        self.message = message


def show(value: Any) -> str:
    """A value in a message: scalars as JSON would have them, shortened; all others by their kind."""
    if isinstance(value, pa.Scalar):
        return f"a value of type {value.type}"
    if isinstance(value, dict):
        return "an object"
    if isinstance(value, list):
        return "a list"
    if value is None or isinstance(value, bool):
        return {None: "null", True: "true", False: "false"}[value]
    return shorten(repr(value), 60)


def shorten(text: str, limit: int) -> str:
    """`text`, or its two ends where it is longer than `limit` characters."""
    if len(text) <= limit:
        return text
    half = (limit - 1) // 2
    return f"{text[:half]}…{text[-half:]}"
