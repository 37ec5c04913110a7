"""Results as CSV: columns as their numbers and texts, whatever has no such form as JSON text. Knows no run."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv as pc

from cbatch.outputs.files import writing
from cbatch.outputs.json_text import plain, to_json
from cbatch.outputs.plain_file import PlainFile

_AS_IT_IS = (
    pa.types.is_boolean,
    pa.types.is_integer,
    pa.types.is_floating,
    pa.types.is_string,
    pa.types.is_large_string,
)
_CAST = (pa.types.is_decimal, pa.types.is_date, pa.types.is_time)


class CsvFile(PlainFile):
    """The file in the making, under its temporary name: UTF-8, a header, null as nothing and an empty text as `""`.

    Raises `WriteError`.
    """

    def __init__(self, path: Path, schema: pa.Schema) -> None:
        super().__init__(path)
        with writing(path):
            header = pa.table({name: pa.array([], pa.string()) for name in schema.names})
            pc.write_csv(header, self._file)

    def add(self, table: pa.Table) -> None:
        """Take rows."""
        self.rows += table.num_rows
        texts = pa.table({name: _text(table[name]) for name in table.column_names})
        with writing(self._path):
            pc.write_csv(texts, self._file, pc.WriteOptions(include_header=False))


def _text(column: Any) -> Any:
    """The column as one that CSV has a form for."""
    if any(test(column.type) for test in _AS_IT_IS):
        return column
    if any(test(column.type) for test in _CAST):
        return column.cast(pa.string())
    return pa.array([_cell(value) for value in column], pa.string())


def _cell(value: Any) -> str | None:
    found = plain(value)
    return found if found is None or isinstance(found, str) else to_json(found)
