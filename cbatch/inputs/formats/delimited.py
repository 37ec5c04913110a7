"""Reads CSV and TSV: a header, then a record a row. Knows no fields."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, closing
from itertools import chain, islice
from typing import Any, BinaryIO

import pyarrow as pa

from cbatch.errors import InputError
from cbatch.inputs.fault import Fault, show
from cbatch.inputs.formats.csv_records import CsvRecord, csv_records
from cbatch.inputs.formats.csv_types import column_type, typed
from cbatch.inputs.records import Chunk, Chunks, ValueChunk, Wanted, in_batches
from cbatch.inputs.sources import Source
from cbatch.inputs.streams import ByteStream, open_text

SAMPLE_ROWS = 1000
"""Rows that decide the types of columns."""


class DelimitedFile:
    """Columns are typed by the first rows. An empty field is null."""

    num_rows: int | None = None

    def __init__(
        self, source: Source, stdin: BinaryIO | ByteStream | None, delimiter: str, text_columns: frozenset[str]
    ) -> None:
        self.source = source
        self.reached = ""
        self._delimiter = delimiter
        with ExitStack() as stack:
            stream = open_text(source, stdin)
            stack.callback(stream.close)
            records = csv_records(stream, delimiter)
            self._columns = _header(source.name, next(records, None))
            batches = in_batches(records, SAMPLE_ROWS, 1)  # rows of a pipe are handed on as they come
            sample = next(batches, [])
            self.types = _types(self._columns, sample, text_columns)
            self._piped: tuple[ByteStream, Iterator[list[CsvRecord]]] | None = None
            if source.state is None:
                self._piped = stream, chain([sample], batches)
                stack.pop_all()

    def chunks(self, wanted: Wanted, types: Mapping[str, pa.DataType]) -> Chunks:
        del wanted  # records have to be parsed to be counted
        if self._piped is not None:
            stream, batches = self._piped
        else:
            stream = open_text(self.source, None)
            batches = in_batches(islice(csv_records(stream, self._delimiter), 1, None), SAMPLE_ROWS, SAMPLE_ROWS)
        with closing(stream):
            for batch in batches:
                yield self._chunk(batch, types)
                self.reached = f"line {batch[-1].line}" if batch else ""

    def _chunk(self, records: Sequence[CsvRecord], types: Mapping[str, pa.DataType]) -> Chunk:
        name, columns = self.source.name, [(column, types[column]) for column in self._columns]

        def place(index: int) -> str:
            return f"{name}:{records[index].line}"

        return ValueChunk(len(records), place, lambda index: _row(records[index].fields, columns))


def _row(fields: list[str] | Fault, columns: Sequence[tuple[str, pa.DataType]]) -> dict[str, Any]:
    """Raises `Fault` with `invalid_csv` or `invalid_utf8`."""
    if isinstance(fields, Fault):
        raise fields
    if len(fields) != len(columns):
        raise Fault("invalid_csv", f"the row has {len(fields)} fields, and the header {len(columns)}: make them match")
    return {name: typed(text, kind) for (name, kind), text in zip(columns, fields, strict=True)}


def _types(columns: Sequence[str], sample: Sequence[CsvRecord], text_columns: frozenset[str]) -> dict[str, pa.DataType]:
    good = [record.fields for record in sample if not isinstance(record.fields, Fault)]
    rows = [fields for fields in good if len(fields) == len(columns)]
    return {
        name: pa.string() if name in text_columns else column_type(row[at] for row in rows)
        for at, name in enumerate(columns)
    }


def _header(name: str, record: CsvRecord | None) -> list[str]:
    fix = "give a first line with the names of the columns, each its own"
    if record is None:
        raise InputError(f"{name} is empty: {fix}")
    if isinstance(record.fields, Fault):
        raise InputError(f"{name}:{record.line}: the header can't be read: {record.fields.message}")
    for column in record.fields:
        if not column.strip():
            raise InputError(f"{name}:{record.line}: a column has no name: {fix}")
        if record.fields.count(column) > 1:
            raise InputError(f"{name}:{record.line}: two columns are named {show(column)}: {fix}")
    return record.fields
