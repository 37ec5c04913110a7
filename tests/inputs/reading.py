"""Reads rows from bytes and files, for the tests of this package."""

from __future__ import annotations

import io
import json
from pathlib import Path
from typing import Any

from cbatch.clock import VirtualClock
from cbatch.errors import InputError
from cbatch.inputs import InputOptions, RowStream, read_rows
from cbatch.row_set import RowSet
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowFault

DEFAULTS = SamplingParams(max_tokens=100, temperature=0.5, seed=9, stop=("END",))

Items = list["Row | RowFault"]


def read(data: bytes, defaults: SamplingParams = DEFAULTS, **options: Any) -> Items:
    """What stdin gives."""
    stdin = io.BytesIO(data)
    return list(read_rows(["-"], defaults=defaults, clock=VirtualClock(), stdin=stdin, options=InputOptions(**options)))


def read_values(*values: Any, **options: Any) -> Items:
    return read(b"".join(json.dumps(value).encode() + b"\n" for value in values), **options)


def open_rows(*sources: Path | str, done: RowSet | None = None, **options: Any) -> RowStream:
    names = [str(source) for source in sources]
    return read_rows(names, defaults=DEFAULTS, clock=VirtualClock(), options=InputOptions(**options), done=done)


def read_files(*sources: Path | str, **options: Any) -> Items:
    return list(open_rows(*sources, **options))


def row(value: Any, **options: Any) -> Row:
    """The row of one JSON value that has no fault."""
    (item,) = read_values(value, **options)
    assert isinstance(item, Row), item
    return item


def fault(value: Any, **options: Any) -> RowFault:
    """The fault of one JSON value."""
    (item,) = read_values(value, **options)
    assert isinstance(item, RowFault), item
    return item


def good(items: Items) -> list[Row]:
    """The items, which are all rows."""
    rows = [item for item in items if isinstance(item, Row)]
    assert len(rows) == len(items), items
    return rows


def numbers(items: Items) -> list[int]:
    return [item.ref.number for item in items]


def broken_off(stream: RowStream) -> tuple[Items, str]:
    """The items before reading breaks off, and what is said then."""
    items: Items = []
    try:
        items.extend(stream)
    except InputError as error:
        return items, str(error)
    raise AssertionError("it reads to the end")
