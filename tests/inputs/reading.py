"""Reads rows from bytes, for the tests of this package."""

from __future__ import annotations

import io
import json
from typing import Any

from cbatch.clock import VirtualClock
from cbatch.inputs import read_rows
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowFault

DEFAULTS = SamplingParams(max_tokens=100, temperature=0.5, seed=9, stop=("END",))


def read(data: bytes, defaults: SamplingParams = DEFAULTS) -> list[Row | RowFault]:
    return list(read_rows(["-"], defaults=defaults, clock=VirtualClock(), stdin=io.BytesIO(data)))


def read_values(*values: Any) -> list[Row | RowFault]:
    return read(b"".join(json.dumps(value).encode() + b"\n" for value in values))


def row(value: Any) -> Row:
    """The row of one JSON value that has no fault."""
    (item,) = read_values(value)
    assert isinstance(item, Row), item
    return item


def fault(value: Any) -> RowFault:
    """The fault of one JSON value."""
    (item,) = read_values(value)
    assert isinstance(item, RowFault), item
    return item
