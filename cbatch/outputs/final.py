"""Brings what a run has left into its final form: merged parts, or one file. Knows no journal being written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Protocol

import pyarrow as pa

from cbatch.outputs.csv_file import CsvFile
from cbatch.outputs.files import publish, remove_folder, writing
from cbatch.outputs.groups import Group, parquet_groups
from cbatch.outputs.journal.layout import Layout
from cbatch.outputs.json_lines_file import JsonLinesFile, line_groups
from cbatch.outputs.merge import merged
from cbatch.outputs.parquet import ParquetTable
from cbatch.outputs.parts import Parts
from cbatch.outputs.swap import swap


class _Sink(Protocol):
    """Files in the making, under their temporary names."""

    rows: int

    @property
    def paths(self) -> Sequence[Path]: ...

    def add(self, table: pa.Table) -> None: ...

    def finish(self) -> None: ...

    def discard(self) -> None: ...


def result_groups(layout: Layout, base: Path | None) -> list[Group]:
    """All results of a run, oldest first: those in the one file that an earlier session left, then its pieces."""
    groups: list[Group] = []
    if base is not None:
        groups += line_groups(base) if layout.renders_lines else parquet_groups(base)
    for piece in layout.pieces("results"):
        groups += parquet_groups(piece)
    return groups


def write_final(layout: Layout, schema: pa.Schema, base: Path | None, order: str) -> int:
    """Merge a complete run's results, and remove what they were merged from; returns how many there are.

    CSV is written from merged parts, which stay: no types could be told from CSV. Raises `WriteError`.
    """
    final = layout.final_file
    if final is None:
        return _merge(layout, Parts(layout.directory, schema), base, order)
    if layout.renders_lines:
        return _merge(layout, JsonLinesFile(final), base, order)
    if layout.output_format == "csv":
        count = _merge(layout, Parts(layout.directory, schema), base, order)
        _render_csv(layout, final, schema)
        return count
    return _merge(layout, ParquetTable(final, schema), base, order)


def write_unfinished(layout: Layout, schema: pa.Schema, base: Path | None, order: str) -> None:
    """Make the results of an incomplete run readable. Lines go into one file; columns are so in pieces, if any are.

    Raises `WriteError`.
    """
    pieces = layout.pieces("results")
    if layout.unfinished_file is not None:
        if pieces or base is None:
            _merge(layout, JsonLinesFile(base or layout.unfinished_file), base, order)
    elif not pieces and base is None:
        _merge(layout, Parts(layout.directory, schema), None, order)


def _merge(layout: Layout, sink: _Sink, base: Path | None, order: str) -> int:
    with _made(sink):
        for table in merged(result_groups(layout, base), order):
            sink.add(table)
    old = [*layout.pieces("results"), *([] if base is None else [base])]
    swap(layout, sink.paths, old)
    with writing(layout.results_folder):
        remove_folder(layout.results_folder)
    return sink.rows


def _render_csv(layout: Layout, path: Path, schema: pa.Schema) -> None:
    sink = CsvFile(path, schema)
    with _made(sink):
        for group in result_groups(layout, None):
            sink.add(group.read())
    with writing(path):
        publish(path)


@contextmanager
def _made(sink: _Sink) -> Iterator[None]:
    """Completes the files, or drops them."""
    try:
        yield
        sink.finish()
    except BaseException:
        sink.discard()
        raise


def is_written(layout: Layout) -> bool:
    """Whether the one file that complete results go to is there, if they go to one."""
    return layout.final_file is None or layout.final_file.exists()
