"""Reads a Parquet file as a trace, whoever wrote it. Knows no other format.

A trace is right as a whole or refused, with the first row that is wrong: a replay of part of it would be another
workload. Column types may be any integers, floats (NaN is null, as data frames have it) or strings that hold the value.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pyarrow.types as kinds

from cbatch.errors import InputError
from cbatch.traces.check import RequestCheck
from cbatch.traces.schema import MANIFEST_KEY, SCHEMA, manifest_from_json
from cbatch.traces.trace import SECOND, Manifest, TraceRequest

BATCH_ROWS = 4096
"""Rows decoded at a time."""
STRINGS = ("prompt", "session_id", "tenant")


class TraceFile:
    """A trace on disk. Each iteration reads it anew, in batches, as `TraceRequest`s in order of arrival.

    Raises `InputError` when made if it isn't a trace, and while iterating at the first row that is wrong.
    """

    def __init__(self, path: Path) -> None:
        self.path = path
        with _opened(path) as file:
            _check_columns(path, file.schema_arrow)
            self.num_requests: int = file.metadata.num_rows
            self.manifest = _manifest(path, file.metadata.metadata)
            """Empty where the file wasn't made by cbatch."""

    def __iter__(self) -> Iterator[TraceRequest]:
        check = RequestCheck()
        for number, row in enumerate(self._rows(), 1):
            try:
                request = _request(row)
                fault = check.fault(request)
            except ValueError as error:
                fault = str(error)
            if fault is not None:
                raise InputError(f"{self.path}, row {number}: {fault}")
            yield request

    def _rows(self) -> Iterator[dict[str, Any]]:
        with _opened(self.path) as file:
            names = [name for name in SCHEMA.names if name in file.schema_arrow.names]
            for batch in file.iter_batches(BATCH_ROWS, columns=names, use_threads=False):
                columns = [batch.column(name).to_pylist() for name in names]
                for values in zip(*columns, strict=True):
                    yield dict(zip(names, values, strict=True))


def read_trace(path: Path) -> TraceFile:
    """The trace in a Parquet file. Raises `InputError` if there is none."""
    return TraceFile(path)


@contextmanager
def _opened(path: Path) -> Iterator[Any]:
    try:
        # opened here, because Arrow takes only names that are UTF-8
        with open(path, "rb") as file, pq.ParquetFile(file) as parquet:
            yield parquet
    except FileNotFoundError:
        raise InputError(f"{path} doesn't exist: check the name, or make a trace with `cbatch trace gen`") from None
    except pa.ArrowException as error:
        raise InputError(
            f"{path} isn't a Parquet file, or a damaged one ({error}): `cbatch trace import` reads other formats"
        ) from error
    except (OSError, UnicodeDecodeError) as error:
        raise InputError(f"{path} can't be read: {getattr(error, 'strerror', None) or error}") from error


def _check_columns(path: Path, schema: pa.Schema) -> None:
    found = ", ".join(schema.names)
    if "arrival_s" not in schema.names:
        raise InputError(
            f"{path} has no column arrival_s, only {found}: add it (seconds), or use `cbatch trace import` on the file"
        )
    if "prompt" not in schema.names and "prompt_tokens" not in schema.names:
        raise InputError(f"{path} has neither a column prompt nor prompt_tokens, only {found}: add one of them")
    for name in SCHEMA.names:
        if schema.names.count(name) > 1:
            raise InputError(f"{path} has {schema.names.count(name)} columns {name}: leave one")
        if name in schema.names and not _fits(name, schema.field(name).type):
            raise InputError(
                f"{path}: column {name} is of type {schema.field(name).type}: make it {SCHEMA.field(name).type}"
            )


def _fits(name: str, kind: Any) -> bool:
    if kinds.is_null(kind):
        return True
    if name in STRINGS:
        value = kind.value_type if kinds.is_dictionary(kind) else kind
        return bool(kinds.is_string(value) or kinds.is_large_string(value) or value == pa.string_view())
    if name == "prefix_ids":
        lists = kinds.is_list(kind) or kinds.is_large_list(kind) or kinds.is_fixed_size_list(kind)
        return lists and bool(kinds.is_integer(kind.value_type) or kinds.is_null(kind.value_type))
    return bool(kinds.is_integer(kind) or kinds.is_floating(kind))


def _manifest(path: Path, metadata: dict[bytes, bytes] | None) -> Manifest:
    text = (metadata or {}).get(MANIFEST_KEY)
    if text is None:
        return Manifest()
    try:
        return manifest_from_json(text)
    except ValueError as error:
        raise InputError(
            f"{path}: its metadata {MANIFEST_KEY.decode()!r} is no manifest that this version of cbatch knows "
            f"({error}): make the trace again"
        ) from error


def _request(row: dict[str, Any]) -> TraceRequest:
    """Raises `ValueError`, with the value and the fix."""
    ids = row.get("prefix_ids") or ()
    if None in ids:
        raise ValueError("prefix_ids holds a null: leave it out")
    priority = _whole(row, "priority")
    return TraceRequest(
        arrival_ns=_arrival_ns(row["arrival_s"]),
        prompt=row.get("prompt"),
        prompt_tokens=_whole(row, "prompt_tokens"),
        output_tokens=_whole(row, "output_tokens"),
        priority=0 if priority is None else priority,
        session_id=row.get("session_id"),
        prefix_ids=tuple(ids),
        prefix_block=_whole(row, "prefix_block"),
        tenant=row.get("tenant"),
    )


def _arrival_ns(seconds: float | None) -> int:
    if seconds is None or not math.isfinite(seconds * SECOND):
        raise ValueError(f"arrival_s is {'null' if seconds is None else seconds}: give every request its seconds")
    return round(seconds * SECOND)


def _whole(row: dict[str, Any], name: str) -> int | None:
    value = row.get(name)
    if value is None or value != value:  # NaN
        return None
    if value in (math.inf, -math.inf) or value != int(value):
        raise ValueError(f"{name} is {value}: give a whole number")
    return int(value)
