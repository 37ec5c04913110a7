"""Writes a trace's Parquet file. Knows nothing of where its requests come from."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from types import TracebackType
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.errors import InputError, OutputError
from cbatch.traces.check import RequestCheck
from cbatch.traces.schema import MANIFEST_KEY, SCHEMA, manifest_to_json
from cbatch.traces.trace import SECOND, Manifest, TraceRequest

GROUP_ROWS = 8192
"""Requests in a row group; at most that many are in memory."""


class TraceWriter:
    """A trace in the making; replaces `path` once it is complete. Equal requests and manifests give equal bytes.

    The manifest is written at the end, so its `changes` may still be counting until then. Used in a `with`: leaving it
    by an exception drops the file. Raises `InputError` for a request that no trace can hold, `OutputError` where the
    disk refuses.
    """

    def __init__(self, path: Path, manifest: Manifest | None = None) -> None:
        self.num_requests = 0
        self._path = path
        self._temporary = path.with_name(f".{path.name}.tmp")
        self._manifest = Manifest() if manifest is None else manifest
        self._check = RequestCheck()
        self._pending: list[TraceRequest] = []
        self._writer: Any = None
        self._file: IO[bytes] | None = None
        with self._writing():
            # opened here, because Arrow takes only names that are UTF-8
            self._file = open(self._temporary, "wb")  # noqa: SIM115
            self._writer = pq.ParquetWriter(self._file, SCHEMA, compression="zstd")

    def add(self, request: TraceRequest) -> None:
        """Take the next request; it may not arrive before the one before it."""
        fault = self._check.fault(request)
        if fault is not None:
            raise InputError(f"{self._path} can't hold request {self.num_requests + 1}: {fault}")
        self.num_requests += 1
        self._pending.append(request)
        if len(self._pending) == GROUP_ROWS:
            self._flush()

    def close(self) -> None:
        """Complete the file and give it its name, after its bytes are on disk."""
        self._flush()
        with self._writing():
            self._writer.add_key_value_metadata({MANIFEST_KEY: manifest_to_json(self._manifest)})
            self._writer.close()
            self._close_file()
            self._temporary.replace(self._path)

    def discard(self) -> None:
        """Drop the unfinished file."""
        with suppress(OSError):  # on a full disk the footer can't be written either
            if self._writer is not None:
                self._writer.close()
        with suppress(OSError):
            self._close_file()
        with suppress(OSError):
            self._temporary.unlink()

    def _flush(self) -> None:
        if self._pending:
            with self._writing():
                self._writer.write_table(_table(self._pending))
        self._pending = []

    def _close_file(self) -> None:
        if self._file is not None and not self._file.closed:
            with self._file:
                self._file.flush()
                os.fsync(self._file.fileno())

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            yield
        except OSError as error:
            self.discard()
            reason = error if error.errno is None else os.strerror(error.errno)  # Arrow wraps it in words of its own
            raise OutputError(f"{self._path} can't be written: {reason}") from error

    def __enter__(self) -> TraceWriter:
        return self

    def __exit__(self, kind: type[BaseException] | None, error: BaseException | None, at: TracebackType | None) -> None:
        if kind is not None:
            self.discard()
            return
        try:
            self.close()
        except BaseException:
            self.discard()
            raise


def _table(requests: list[TraceRequest]) -> pa.Table:
    columns: dict[str, list[Any]] = {name: [getattr(r, name) for r in requests] for name in SCHEMA.names[1:]}
    columns["arrival_s"] = [request.arrival_ns / SECOND for request in requests]
    columns["prefix_ids"] = [request.prefix_ids or None for request in requests]
    return pa.table(columns, schema=SCHEMA)
