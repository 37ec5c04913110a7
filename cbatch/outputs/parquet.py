"""One Parquet file in the making, of Arrow tables. Knows no schema and no run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import IO, Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.outputs.files import WriteError, temporary, writing

GROUP_ROWS = 10_000
GROUP_BYTES = 32 << 20
"""A row group is complete with so many rows or bytes; at most so much is in memory, twice."""


class ParquetTable:
    """A Parquet file under its temporary name, in row groups. `finish` completes it; a name is given by `publish`.

    Raises `WriteError` where the disk refuses. The file is then gone: without its footer nobody could read it.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        self.path = path
        self.paths = (path,)
        self.rows = 0
        self._schema = schema
        self._pending: list[pa.Table] = []
        self._pending_rows = self._pending_bytes = 0
        self._writer: Any = None
        self._file: IO[bytes] | None = None
        with self._writing():
            # opened here, because Arrow takes only names that are UTF-8
            self._file = open(temporary(path), "wb")  # noqa: SIM115
            self._writer = pq.ParquetWriter(self._file, schema, compression="zstd")

    def add(self, table: pa.Table) -> None:
        """Take rows; a column that the table lacks is null."""
        if self._writer is None:
            raise WriteError(f"{self.path} is closed and takes no more rows")
        self.rows += table.num_rows
        for rows in _slices(conform(table, self._schema)):
            self._pending.append(rows)
            self._pending_rows += rows.num_rows
            self._pending_bytes += rows.nbytes
            if self._pending_rows >= GROUP_ROWS or self._pending_bytes >= GROUP_BYTES:
                self._flush()

    def finish(self) -> None:
        """Complete the file. Calling it again does nothing."""
        if self._writer is None:
            return
        self._flush()
        with self._writing():
            self._writer.close()
            self._close_file()
        self._writer = None

    def discard(self) -> None:
        """Drop the file, unless it is complete."""
        if self._writer is None and self._file is None:
            return
        if self._writer is not None:
            with suppress(OSError):  # on a full disk the footer can't be written either
                self._writer.close()
        with suppress(OSError):
            self._close_file()
        with suppress(OSError):
            temporary(self.path).unlink()
        self._writer = None
        self._pending = []

    def __enter__(self) -> ParquetTable:
        return self

    def __exit__(self, *_: object) -> None:
        self.discard()

    def _flush(self) -> None:
        pending, length = self._pending, self._pending_rows
        self._pending, self._pending_rows, self._pending_bytes = [], 0, 0
        with self._writing():
            if length:
                self._writer.write_table(pa.concat_tables(pending), row_group_size=length)

    def _close_file(self) -> None:
        if self._file is not None:
            self._file.close()
            self._file = None

    @contextmanager
    def _writing(self) -> Iterator[None]:
        try:
            with writing(self.path):
                yield
        except WriteError:
            self.discard()
            raise


def conform(table: pa.Table, schema: pa.Schema) -> pa.Table:
    """The table with a schema's columns and no others; those it lacks are null."""
    if table.schema.equals(schema):
        return table
    names = set(table.column_names)
    columns = [
        table[field.name].cast(field.type) if field.name in names else pa.nulls(table.num_rows, field.type)
        for field in schema
    ]
    return pa.Table.from_arrays(columns, schema=schema)


def _slices(table: pa.Table) -> Iterator[pa.Table]:
    """The table in pieces of at most a row group."""
    by_size = table.num_rows * GROUP_BYTES // table.nbytes if table.nbytes else GROUP_ROWS
    length = max(1, min(GROUP_ROWS, by_size))
    return (table.slice(start, length) for start in range(0, table.num_rows, length))
