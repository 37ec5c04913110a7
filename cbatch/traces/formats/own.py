"""cbatch's own traces, so that they can be linted and transformed like any other."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from cbatch.traces.formats.containers import PARQUET, name_of
from cbatch.traces.formats.format import Entry, Format, Options, Reader
from cbatch.traces.reader import read_trace


def _rows(path: Path, form: Format) -> Iterator[tuple[str, Any]]:
    del form  # `read_trace` knows the columns
    name = name_of(path)
    for number, request in enumerate(read_trace(path), 1):
        yield f"{name}: row {number}", request


def _reader(_: Options) -> Reader:
    return Entry


CBATCH = Format(
    "cbatch",
    "a cbatch trace",
    PARQUET._replace(rows=_rows),
    ("arrival_s",),
    _reader,
    one_of=("prompt", "prompt_tokens"),
    optional=("output_tokens", "priority", "session_id", "prefix_ids", "prefix_block", "tenant"),
    time="arrival_s",
    from_first=False,
)
