"""Records of Arrow record batches. Knows no files.

Null, booleans, whole numbers, floats and strings become what JSON would have them; cells of other types stay Arrow's,
so that results can hold them as they are.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import pyarrow as pa
import pyarrow.types as kinds

from cbatch.errors import InputError
from cbatch.inputs.fault import Fault, show
from cbatch.inputs.records import Record
from cbatch.inputs.where import Mismatch, Where

BATCH_BYTES = 1 << 24
"""Of rows to decode at once, about."""
BATCH_ROWS = 1024


def column_types(name: str, schema: pa.Schema) -> dict[str, pa.DataType]:
    """Types of the columns of a file; a dictionary's is that of its values. Raises `InputError` for repeated names."""
    for column in schema.names:
        if schema.names.count(column) > 1:
            raise InputError(f"{name} has two columns named {show(column)}: rename one")
    return {field.name: _plain_type(field.type) for field in schema}


def batch_rows(total_bytes: int, num_rows: int) -> int:
    """How many of so many rows to take at once."""
    return max(1, min(BATCH_ROWS, BATCH_BYTES * num_rows // max(1, total_bytes)))


class TableChunk:
    """The rows of a record batch, the first of which is row `first` of its file."""

    def __init__(self, batch: pa.RecordBatch, name: str, first: int, types: Mapping[str, pa.DataType]) -> None:
        """Columns are cast to `types` where that is more than a number's width."""
        self._batch = batch
        self._name = name
        self._first = first
        self._types = types

    def __len__(self) -> int:
        length: int = self._batch.num_rows
        return length

    def matches(self, where: Where) -> Sequence[int]:
        columns = {name: _checked(self._batch.column(name)) for name in where.fields}
        try:
            mask = where.mask(columns, len(self))
        except Mismatch as mismatch:
            raise InputError(f"{self._name}: {mismatch.problem}: correct --where") from mismatch
        indices: list[int] = mask.to_numpy(zero_copy_only=False).nonzero()[0].tolist()
        return indices

    def take(self, indices: Sequence[int]) -> Iterator[Record]:
        if not indices:
            return
        names = self._batch.schema.names
        columns = [self._cells(name, indices) for name in names]
        for index, cells in zip(indices, zip(*columns, strict=True), strict=True):
            where = f"{self._name}, row {self._first + index}"
            fault = next((cell for cell in cells if isinstance(cell, Fault)), None)
            yield Record(where, dict(zip(names, cells, strict=True)) if fault is None else None, fault)

    def _cells(self, name: str, indices: Sequence[int]) -> list[Any]:
        """Copied where they are few, so that they don't keep the whole batch in memory."""
        column = _checked(self._batch.column(name))
        if len(indices) < len(column):
            column = column.take(pa.array(indices, pa.int64()))
        if not is_plain(column.type):
            wanted = self._types[name]
            column = column if column.type == wanted else column.cast(wanted)
            return [cell if cell.is_valid else None for cell in column]
        if kinds.is_float16(column.type):
            column = column.cast(pa.float32())
        try:
            cells: list[Any] = column.to_pylist()
        except UnicodeDecodeError:
            return [_text(name, cell) for cell in column]
        return cells


class Skipped:
    """Rows that nobody asks for."""

    def __init__(self, length: int) -> None:
        self._length = length

    def __len__(self) -> int:
        return self._length

    def matches(self, where: Where) -> Sequence[int]:
        del where
        return ()

    def take(self, indices: Sequence[int]) -> Iterator[Record]:
        assert not indices
        return iter(())


def is_plain(kind: pa.DataType) -> bool:
    """Whether its cells become what JSON would have them."""
    return bool(
        kinds.is_null(kind)
        or kinds.is_boolean(kind)
        or kinds.is_integer(kind)
        or kinds.is_floating(kind)
        or is_text(kind)
    )


def is_text(kind: pa.DataType) -> bool:
    return bool(kinds.is_string(kind) or kinds.is_large_string(kind) or kinds.is_string_view(kind))


def _plain_type(kind: pa.DataType) -> pa.DataType:
    return kind.value_type if kinds.is_dictionary(kind) else kind


def _checked(column: Any) -> Any:
    """The column, decoded where it is a dictionary. Arrow itself trusts what it reads, and would crash on damage."""
    try:
        column.validate(full=True)
    except pa.ArrowInvalid:
        if not (kinds.is_string(column.type) or kinds.is_large_string(column.type)):
            raise
        # where only its UTF-8 is wrong, each row is told apart
        column.view(pa.binary() if kinds.is_string(column.type) else pa.large_binary()).validate(full=True)
    return column.dictionary_decode() if kinds.is_dictionary(column.type) else column


def _text(name: str, cell: Any) -> str | Fault | None:
    try:
        text: str | None = cell.as_py()
    except UnicodeDecodeError as error:
        return Fault(
            "invalid_utf8", f"column {show(name)} holds text that isn't valid UTF-8 ({error.reason}): repair it"
        )
    return text
