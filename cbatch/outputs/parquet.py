"""One Parquet file that grows by row groups, and gets its name when it is complete. Knows no schema and no run."""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.clock import Clock
from cbatch.outputs.files import WriteError, publish, temporary, writing

GROUP_ROWS = 1_000
GROUP_NS = 2_000_000_000
"""A row that is added this long after the last row group takes the waiting ones to disk with it."""


class ParquetTable:
    """A Parquet file in the making; at most `GROUP_ROWS` rows are in memory.

    Raises `WriteError` where the disk refuses. The file is then gone: without its footer nobody could read it.
    """

    def __init__(self, path: Path, schema: pa.Schema, clock: Clock) -> None:
        self.rows = 0
        self._path = path
        self._schema = schema
        self._clock = clock
        self._pending: list[dict[str, Any]] = []
        self._flushed_ns = clock.now_ns()
        with writing(path):
            self._writer: Any = pq.ParquetWriter(temporary(path), schema, compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        """Take a row: a value for each column; one left out is null."""
        if self._writer is None:
            raise WriteError(f"{self._path} is closed and takes no more rows")
        self._pending.append(row)
        self.rows += 1
        if len(self._pending) >= GROUP_ROWS or self._clock.now_ns() - self._flushed_ns >= GROUP_NS:
            self._flush()

    def close(self) -> None:
        """Complete the file and give it its name. Calling it again does nothing."""
        if self._writer is None:
            return
        self._flush()
        try:
            with writing(self._path):
                self._writer.close()
                publish(self._path)
        except WriteError:
            self._discard()
            raise
        self._writer = None

    def _flush(self) -> None:
        table = pa.Table.from_pylist(self._pending, schema=self._schema)
        try:
            with writing(self._path):
                if table.num_rows:
                    self._writer.write_table(table)
        except WriteError:
            self._discard()
            raise
        self._pending = []
        self._flushed_ns = self._clock.now_ns()

    def _discard(self) -> None:
        with suppress(OSError):  # the failure that brought us here is the one to report
            self._writer.close()
        with suppress(OSError):
            temporary(self._path).unlink()
        self._writer = None
        self._pending = []
