"""Reads Arrow IPC, as a file or as a stream, a record batch at a time. Knows no fields."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from contextlib import closing
from typing import Any, BinaryIO

import pyarrow as pa
import pyarrow.dataset as ds

from cbatch.errors import InputError
from cbatch.inputs.formats.table import Skipped, TableChunk, batch_rows, column_types
from cbatch.inputs.records import Chunks, Wanted
from cbatch.inputs.sources import Source
from cbatch.inputs.streams import ByteStream, arrow_file, open_bytes

_FILE_MAGIC = b"ARROW1"


class ArrowFile:
    """Batches are read whole, not mapped into memory: then a file that shrinks would end the process."""

    def __init__(self, source: Source, stdin: BinaryIO | ByteStream | None) -> None:
        self.source = source
        self.reached = ""
        self.num_rows: int | None = None
        stream = open_bytes(source, stdin)
        is_file = stream.peek(len(_FILE_MAGIC)).startswith(_FILE_MAGIC)
        if source.state is None:
            if is_file:
                stream.close()
                raise InputError(
                    f"{source.name}: an Arrow file is read from its end: give the stream format, or a file"
                )
            self._piped: Any = pa.ipc.open_stream(arrow_file(stream))
            self.types = column_types(source.name, self._piped.schema)
            return
        stream.close()
        with open(source.path, "rb") as file, (pa.ipc.open_file if is_file else pa.ipc.open_stream)(file) as reader:
            self.types = column_types(source.name, reader.schema)
        if is_file:
            with open(source.path, "rb") as file:
                self.num_rows = ds.IpcFileFormat().make_fragment(file).count_rows()
        self._piped, self._is_file = None, is_file

    def chunks(self, wanted: Wanted, types: Mapping[str, pa.DataType]) -> Chunks:
        row = 0
        with closing(self._batches()) as batches:
            for batch in batches:
                batch.validate()
                if wanted(row, batch.num_rows):
                    yield from self._slices(batch, row, types)
                else:
                    yield Skipped(batch.num_rows)
                row += batch.num_rows
                self.reached = f"row {row}" if row else ""

    def _batches(self) -> Generator[pa.RecordBatch, None, None]:
        if self._piped is not None:
            yield from self._piped
            return
        if not self._is_file:
            with closing(open_bytes(self.source, None)) as stream:
                yield from pa.ipc.open_stream(arrow_file(stream))
            return
        # opened here, because Arrow takes only names that are UTF-8
        with open(self.source.path, "rb") as file:
            reader = pa.ipc.open_file(file)
            yield from map(reader.get_batch, range(reader.num_record_batches))

    def _slices(self, batch: pa.RecordBatch, row: int, types: Mapping[str, pa.DataType]) -> Chunks:
        size = batch_rows(batch.get_total_buffer_size(), batch.num_rows)
        for start in range(0, batch.num_rows, size):
            yield TableChunk(batch.slice(start, size), self.source.name, row + start + 1, types)
