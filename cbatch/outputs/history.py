"""`requests.parquet` and `steps.parquet`: what earlier sessions of a run left, and what this one adds.

The file says in its metadata up to which segment it holds the pieces, so those can be removed after it is published,
now or when the directory is opened again. Knows no row.
"""

from __future__ import annotations

import json
from dataclasses import asdict, dataclass
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.outputs.files import publish, remove, writing
from cbatch.outputs.groups import parquet_metadata, reading
from cbatch.outputs.journal.layout import Layout, number_of
from cbatch.outputs.parquet import ParquetTable

_KEY = b"cbatch"
_BATCH_ROWS = 10_000


@dataclass(frozen=True, slots=True)
class Held:
    """What a table says of itself."""

    through: int = -1
    """The last segment whose pieces it holds."""
    results: int | None = None
    """How many results the run has, if it is complete."""


def held(layout: Layout, table: str) -> Held:
    """Of the table on disk; a default one where there is none. Raises `OutputError` where it can't be read."""
    path = layout.table(table)
    if not path.exists():
        return Held()
    note = (parquet_metadata(path).metadata or {}).get(_KEY)
    return Held() if note is None else Held(**json.loads(note))


def write_history(layout: Layout, table: str, schema: pa.Schema, results: int | None) -> None:
    """Append the pieces in order of time, and remove them. Raises `WriteError`."""
    path, before, pieces = layout.table(table), held(layout, table), layout.pieces(table)
    now = Held(max([before.through, *map(number_of, pieces)]), results)
    if path.exists() and before == now:
        return
    with ParquetTable(path, schema.with_metadata({_KEY: json.dumps(asdict(now)).encode()})) as whole:
        for source in ([path] if path.exists() else []) + pieces:
            with reading(source), open(source, "rb") as file:
                for batch in pq.ParquetFile(file).iter_batches(_BATCH_ROWS, use_threads=False):
                    whole.add(pa.Table.from_batches([batch]))
        whole.finish()
        with writing(path):
            publish(path)
    remove_held(layout, table)


def remove_held(layout: Layout, table: str) -> None:
    """Remove the pieces that the table holds. Raises `WriteError`."""
    through = held(layout, table).through
    for piece in layout.pieces(table):
        if number_of(piece) <= through:
            with writing(piece):
                remove(piece)


def last_ns(layout: Layout, table: str, column: str) -> int:
    """The largest time in the column, 0 if there is none. Raises `OutputError` where a file can't be read."""
    path = layout.table(table)
    sources = ([path] if path.exists() else []) + layout.pieces(table)
    return max((_largest(parquet_metadata(source), column) for source in sources), default=0)


def _largest(metadata: Any, column: str) -> int:
    """By the statistics of the file."""
    index = metadata.schema.names.index(column)
    found = [metadata.row_group(i).column(index).statistics for i in range(metadata.num_row_groups)]
    return max((int(statistics.max) for statistics in found if statistics is not None), default=0)
