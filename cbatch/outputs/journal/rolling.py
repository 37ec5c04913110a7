"""Turns a segment of the journal into pieces, one Parquet file a table. May be cut off anywhere, and repeated."""

from __future__ import annotations

from contextlib import ExitStack

import pyarrow as pa

from cbatch.outputs.files import WriteError, make_folder, publish_all, remove, writing
from cbatch.outputs.journal.layout import Layout
from cbatch.outputs.journal.reader import SegmentReader
from cbatch.outputs.parquet import ParquetTable


def roll(layout: Layout, number: int, *, whole: bool) -> int:
    """Publish the pieces of a closed segment, then remove it; returns the bytes of it that were torn off.

    A piece that stands already stays: it holds the same rows. A table without rows gets none. Raises `WriteError`, also
    where a segment that has to be `whole` isn't.
    """
    path = layout.segment(number)
    with writing(path):
        reader = SegmentReader(path)
        _write_pieces(layout, number, reader)
        if whole and reader.dropped_bytes:
            raise WriteError(f"{path} can't be read back as it was written: check the disk; the file is kept")
        remove(path)
    return reader.dropped_bytes


def _write_pieces(layout: Layout, number: int, reader: SegmentReader) -> None:
    pieces: dict[str, ParquetTable] = {}
    with ExitStack() as stack:
        for batches in reader:
            for table, batch in batches.items():
                path = layout.piece(table, number)
                if table not in pieces and not path.exists():
                    make_folder(path.parent)
                    pieces[table] = stack.enter_context(ParquetTable(path, reader.schemas[table]))
                if table in pieces:
                    pieces[table].add(pa.Table.from_batches([batch]))
        for piece in pieces.values():
            piece.finish()
        publish_all([piece.path for piece in pieces.values()])
