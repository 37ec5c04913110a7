"""Which format a trace file has, told from what is in it and not from its name."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any, NamedTuple

import ijson

from cbatch.errors import InputError, UsageError
from cbatch.traces.formats.aiperf import AIPERF
from cbatch.traces.formats.azure import AZURE
from cbatch.traces.formats.bailian import BAILIAN
from cbatch.traces.formats.burstgpt import BURSTGPT
from cbatch.traces.formats.containers import (
    ARRAY,
    CSV,
    JSONL,
    PARQUET,
    csv_columns,
    json_value,
    name_of,
    open_binary,
    parquet_columns,
    text_lines,
)
from cbatch.traces.formats.format import BadRow, Format
from cbatch.traces.formats.mooncake import MOONCAKE
from cbatch.traces.formats.own import CBATCH
from cbatch.traces.formats.prompts import OPENAI, PROMPTS
from cbatch.traces.formats.sharegpt import SHAREGPT
from cbatch.traces.formats.values import show
from cbatch.traces.formats.vidur import VIDUR

FORMATS = (CBATCH, AZURE, BURSTGPT, VIDUR, BAILIAN, MOONCAKE, AIPERF, SHAREGPT, OPENAI, PROMPTS)
"""Where several match, the first is meant: it is the one that needs more."""

_HEAD = 1 << 16
"""Bytes to look at for the kind of file."""


class Contents(NamedTuple):
    """What can be seen of a file without reading it all."""

    container: str
    columns: tuple[str, ...]
    """Of a CSV header or a Parquet schema, else the fields of the first record."""


def detect(path: Path) -> Format:
    """The format of the file. Raises `InputError`, with what was found and the formats there are, where it has none."""
    return recognise(path)[0]


def recognise(path: Path) -> tuple[Format, tuple[str, ...]]:
    """The format of the file and the columns that it has. Raises `InputError` as `detect` does."""
    contents = look(path)
    for form in FORMATS:
        if form.container.name == contents.container and form.matches(contents.columns):
            return form, contents.columns
    found = ", ".join(show(column) for column in contents.columns[:12]) or "no columns"
    known = "; ".join(str(form) for form in FORMATS)
    raise InputError(
        f"{name_of(path)} has {found} ({contents.container}), which is no trace format cbatch knows. "
        f"It knows {known}. Name the columns so, or give --format"
    )


def format_named(name: str) -> Format:
    """The format of that name. Raises `UsageError`."""
    for form in FORMATS:
        if form.name == name:
            return form
    raise UsageError(f"format is {name!r}: give one of {', '.join(form.name for form in FORMATS)}")


def look(path: Path) -> Contents:
    """The kind of file and its columns. Raises `InputError`."""
    with open_binary(path) as stream:
        head = stream.read(_HEAD).lstrip()
    if not head:
        raise InputError(f"{name_of(path)} is empty: give a trace with at least one request")
    if head.startswith(b"PAR1"):
        return Contents(PARQUET.name, tuple(parquet_columns(path)))
    if head.startswith(b"["):
        return Contents(ARRAY.name, _fields(_first_item(path)))
    where, line = next(text_lines(path))
    record = json_value(line) if head.startswith((b"{", b'"')) else None  # a CSV header may begin with a quote, too
    if isinstance(record, BadRow) and head.startswith(b"{"):
        raise InputError(f"{where}: {record}; mend the line, or give --format to go on without it")
    if record is not None and not isinstance(record, BadRow):
        return Contents(JSONL.name, _fields(record))
    try:
        return Contents(CSV.name, tuple(csv_columns(line)))
    except BadRow as bad:
        raise InputError(f"{where}: {bad}") from None


def _fields(record: Any) -> tuple[str, ...]:
    """A JSON string stands for a prompt, as in `cbatch run`."""
    if isinstance(record, str):
        return ("prompt",)
    return tuple(record) if isinstance(record, Mapping) else ()


def _first_item(path: Path) -> Any:
    """Of a JSON array; None where it has none. A broken array is told by whoever reads it."""
    with open_binary(path) as stream:
        try:
            return next(ijson.items(stream, "item", use_float=True), None)
        except (ijson.JSONError, UnicodeDecodeError) as error:
            reason = " ".join(str(error).split())[:100]
            raise InputError(f"{name_of(path)} isn't a valid JSON array: {reason}") from error
