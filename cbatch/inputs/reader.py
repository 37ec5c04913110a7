"""The stream of rows of a job: numbers them, times them and keeps their ids apart. Knows no JSON and no fields."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import BinaryIO

from cbatch.clock import Clock
from cbatch.inputs.fault import Fault, show
from cbatch.inputs.ids import TakenIds
from cbatch.inputs.jsonl import check_writable, decode
from cbatch.inputs.rows import carried_of, id_of, to_row
from cbatch.inputs.sources import Line, find_sources, read_lines
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowFault, RowRef


def read_rows(
    sources: Sequence[str], *, defaults: SamplingParams, clock: Clock, stdin: BinaryIO | None = None
) -> Iterator[Row | RowFault]:
    """One item for each line of JSONL that isn't blank, in order.

    Of past rows only the ids are kept: a bit for a row number, about 80 bytes for an id of another form.

    `sources` are paths, globs, or `-` for standard input (`stdin`, where that is given). A line is a prompt (a JSON
    string), an object with `prompt` or `messages`, or an OpenAI Batch line. Ids are unique among the `Row`s; a
    `RowFault` keeps the id its line gives, which may be another row's.

    Raises `InputError`: at once where a source can't be read or a glob matches nothing, later where reading breaks off.
    """
    reader = _Reader(defaults, clock)
    paths = find_sources(sources)
    return (reader.read(line) for path in paths for line in read_lines(path, stdin))


@dataclass(slots=True)
class _Reader:
    defaults: SamplingParams
    clock: Clock
    number: int = 0
    taken: TakenIds = field(default_factory=TakenIds)
    """By rows that run."""

    def read(self, line: Line) -> Row | RowFault:
        self.number += 1
        # Each stage tells `ref` more about the row, so that a fault says as much as could be read.
        ref = RowRef(self.number, str(self.number), line.where, self.clock.now_ns())
        try:
            value = decode(line.raw)
            claimed = id_of(value)
            if claimed is not None:
                check_writable(claimed)
                ref = replace(ref, id=claimed)
            check_writable(value)
            ref = replace(ref, carried=carried_of(value))
            row = to_row(ref, value, self.defaults)
            self._claim(ref.id, given=claimed is not None)
        except Fault as fault:
            return RowFault(ref, fault.code, fault.message)
        return row

    def _claim(self, row_id: str, *, given: bool) -> None:
        if not self.taken.claim(row_id, self.number):
            fix = "give each row its own" if given else "it is this row's number, so give the row an id of its own"
            raise Fault("duplicate_id", f"id {show(row_id)} is taken by an earlier row: {fix}")
