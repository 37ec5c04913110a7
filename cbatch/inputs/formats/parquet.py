"""Reads Parquet, a row group after the other and of each a few rows at a time. Knows no fields."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq

from cbatch.errors import InputError
from cbatch.inputs.formats.table import Skipped, TableChunk, batch_rows, column_types
from cbatch.inputs.records import Chunks, Wanted
from cbatch.inputs.sources import STDIN, Source
from cbatch.inputs.where import Mismatch, Where

_BUFFER = 1 << 18
"""Bytes of each column to read at once. Without it Arrow reads a whole row group."""


class ParquetSource:
    """`where` decides by their statistics which row groups are left out."""

    num_rows: int | None

    def __init__(self, source: Source, where: Where | None) -> None:
        if source.path == STDIN or source.state is None:
            raise InputError(f"{source.name}: Parquet is read from its end, so it needs a file: save it as one")
        self.source = source
        self.reached = ""
        self._where = where
        # opened here, because Arrow takes only names that are UTF-8
        with open(source.path, "rb") as raw, pq.ParquetFile(raw) as file:
            self.types = column_types(source.name, file.schema_arrow)
            self.num_rows = file.metadata.num_rows

    def chunks(self, wanted: Wanted, types: Mapping[str, pa.DataType]) -> Chunks:
        with (
            open(self.source.path, "rb") as raw,
            pq.ParquetFile(raw, buffer_size=_BUFFER, pre_buffer=False) as file,
        ):
            possible = self._possible(file)
            row = 0
            for group in range(file.metadata.num_row_groups):
                count = file.metadata.row_group(group).num_rows
                if group not in possible or not wanted(row, count):
                    yield Skipped(count)
                else:
                    yield from self._group(file, group, row, types)
                row += count

    def _group(self, file: pq.ParquetFile, group: int, row: int, types: Mapping[str, pa.DataType]) -> Chunks:
        about = file.metadata.row_group(group)
        size = batch_rows(about.total_byte_size, about.num_rows)
        for batch in file.iter_batches(size, row_groups=[group], use_threads=False):
            yield TableChunk(batch, self.source.name, row + 1, types)
            row += batch.num_rows
            self.reached = f"row {row}"

    def _possible(self, file: pq.ParquetFile) -> set[int]:
        """The row groups in which a row may match."""
        every = set(range(file.metadata.num_row_groups))
        if self._where is None:
            return every
        try:
            condition = self._where.expression(
                {name: file.schema_arrow.field(name).type for name in self._where.fields}
            )
        except Mismatch:  # such as of a dictionary, whose rows are looked at decoded
            return every
        with open(self.source.path, "rb") as raw:
            fragment: Any = ds.ParquetFileFormat().make_fragment(raw)
            kept = fragment.split_by_row_group(condition, file.schema_arrow)
            return {group.id for part in kept for group in part.row_groups}
