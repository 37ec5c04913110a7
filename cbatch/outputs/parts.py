"""Results as numbered Parquet parts. Knows no run."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa

from cbatch.outputs.directory import RESULTS_FOLDER, part_path
from cbatch.outputs.files import make_folder, writing
from cbatch.outputs.parquet import ParquetTable

PART_ROWS = 1_000_000


class Parts:
    """Parts in the making, under their temporary names; one without rows if there are none. Raises `WriteError`."""

    def __init__(self, directory: Path, schema: pa.Schema) -> None:
        self.paths: list[Path] = []
        self.rows = 0
        self._directory = directory
        self._schema = schema
        self._open: ParquetTable | None = None
        with writing(directory / RESULTS_FOLDER):
            make_folder(directory / RESULTS_FOLDER)

    def add(self, table: pa.Table) -> None:
        """Take rows."""
        part = self._open or self._begin()
        part.add(table)
        self.rows += table.num_rows
        if part.rows >= PART_ROWS:
            part.finish()
            self._open = None

    def finish(self) -> None:
        """Complete the last part."""
        if not self.paths:
            self._begin()
        if self._open is not None:
            self._open.finish()
            self._open = None

    def discard(self) -> None:
        """Drop the open part; those before it go when the directory is opened again."""
        if self._open is not None:
            self._open.discard()

    def _begin(self) -> ParquetTable:
        self._open = ParquetTable(part_path(self._directory, len(self.paths)), self._schema)
        self.paths.append(self._open.path)
        return self._open
