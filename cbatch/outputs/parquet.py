"""One Parquet file that grows by row groups, and gets its name when it is complete. Knows no schema and no run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.outputs.arrow import column
from cbatch.outputs.files import WriteError, publish, temporary, writing


class ParquetTable:
    """A Parquet file in the making, in row groups of `group_rows`; at most that many rows are in memory.

    Raises `WriteError` where the disk refuses. The file is then gone: without its footer nobody could read it. For the
    same reason a killed process loses it, however often rows were flushed.
    """

    def __init__(self, path: Path, schema: pa.Schema, group_rows: int) -> None:
        self.rows = 0
        self._path = path
        self._schema = schema
        self._group_rows = group_rows
        self._pending: list[dict[str, Any]] = []
        self._writer: Any = None
        self._file: IO[bytes] | None = None
        with self._writing():
            # opened here, because Arrow takes only names that are UTF-8
            self._file = open(temporary(path), "wb")  # noqa: SIM115
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def add(self, row: dict[str, Any]) -> None:
        """Take a row: a value for each column; one left out is null."""
        if self._writer is None:
            raise WriteError(f"{self._path} is closed and takes no more rows")
        self._pending.append(row)
        self.rows += 1
        if len(self._pending) == self._group_rows:
            self._flush()

    def close(self) -> None:
        """Complete the file and give it its name. Calling it again does nothing."""
        if self._writer is None:
            return
        self._flush()
        with self._writing():
            self._writer.close()
            self._close_file()
            publish(self._path)
        self._writer = None

    def discard(self) -> None:
        """Drop the file, unless it is complete."""
        if self._writer is not None:
            with suppress(OSError):  # on a full disk the footer can't be written either
                self._writer.close()
        with suppress(OSError):
            self._close_file()
        with suppress(OSError):
            temporary(self._path).unlink()
        self._writer = None
        self._pending = []

    def _flush(self) -> None:
        columns = [column([row.get(field.name) for row in self._pending], field.type) for field in self._schema]
        table = pa.Table.from_arrays(columns, schema=self._schema)
        with self._writing():
            if table.num_rows:
                self._writer.write_table(table)
        self._pending = []

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with writing(self._path):
                yield
        except WriteError:
            self.discard()
            raise
