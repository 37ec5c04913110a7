"""The stream of rows of a job: numbers them, times them and keeps their ids apart. Knows no formats and no fields."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass, field
from functools import partial
from typing import Any, BinaryIO

import pyarrow as pa

from cbatch.clock import Clock
from cbatch.errors import UsageError
from cbatch.inputs.columns import carried_types, check_columns, common_types
from cbatch.inputs.fault import Fault, show
from cbatch.inputs.field_names import FieldNames
from cbatch.inputs.formats import cant_read, open_source
from cbatch.inputs.ids import TakenIds
from cbatch.inputs.json_text import check_writable
from cbatch.inputs.options import AUTO, InputOptions
from cbatch.inputs.records import Opened, Record
from cbatch.inputs.rows import Asked, RowMaker
from cbatch.inputs.selection import Numbers, Selection, row_numbers
from cbatch.inputs.sources import Source, find_sources
from cbatch.inputs.streams import READ_ERRORS, ByteStream
from cbatch.inputs.template import Template
from cbatch.row_set import RowSet
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowFault, RowKind, RowRef

_ALL = InputOptions()


def read_rows(
    sources: Sequence[str],
    *,
    defaults: SamplingParams,
    clock: Clock,
    stdin: BinaryIO | ByteStream | None = None,
    options: InputOptions = _ALL,
    done: RowSet | None = None,
    taken: Iterable[tuple[int, str]] = (),
) -> RowStream:
    """The rows of files, directories and globs, in order; `-` is standard input (`stdin`, where that is given).

    A record is a prompt (a string), an object or table row with `prompt` or `messages`, or an OpenAI Batch line;
    `options` can say otherwise, and which records become rows. Records are numbered before any is left out. Rows in
    `done` are left out too; `taken` holds number and id of those among them that hold their ids, ascending.

    Of past rows only the ids are kept. Ids are unique among the `Row`s; a `RowFault` keeps the id its record gives,
    which may be another row's. Rows are read only as they are asked for; of CSV from a pipe the first are read at once.

    Raises `InputError`: at once where a source can't be read or lacks a column that is asked for, later where reading
    breaks off or a file isn't what it was any more; and `UsageError` for a sample of a pipe.
    """
    names = FieldNames.of(options)
    selection = Selection(options, RowSet() if done is None else done)
    found = find_sources(sources, None if options.format == AUTO else options.format)
    if selection.counts_first and (piped := next((source for source in found if source.state is None), None)):
        raise UsageError(
            f"--sample {options.sample:g} of {piped.name}: its rows can't be counted beforehand; "
            "give a share such as 0.1, or a file"
        )
    text_columns = frozenset((*names.ids, *names.contents))
    files = [(s, open_source(s, stdin, text_columns=text_columns, where=selection.where)) for s in found]
    check_columns(files, names, options, selection.where)
    template = None if options.template is None else Template(options.template)
    reader = _Reader(RowMaker(names, defaults, template), clock, taken)
    return RowStream(files, selection, reader, names)


class RowStream(Iterator[Row | RowFault]):
    """What `read_rows` gives."""

    def __init__(
        self, files: Sequence[tuple[Source, Opened]], selection: Selection, reader: _Reader, names: FieldNames
    ) -> None:
        self._files = files
        self._selection = selection
        self._reader = reader
        self._types = common_types(files)
        self.carried_types: Mapping[str, pa.DataType] = carried_types(self._types, names)
        """Of the columns that rows carry, where their sources have typed columns; values may also be of other types."""
        self._total = _sum([opened.num_rows for _, opened in files])
        self.num_rows = None if self._total is None else selection.num_rows(self._total)
        """Rows that it gives, where that is known without reading all."""
        self._rows = self._read()

    def __next__(self) -> Row | RowFault:
        return next(self._rows)

    def check_unchanged(self) -> None:
        """Raises `InputError` where a file isn't the one that it was at the start."""
        for source, _ in self._files:
            source.check_unchanged()

    def _read(self) -> Iterator[Row | RowFault]:
        if self._selection.counts_first:
            self._selection.count(self._matching_numbers())
        start = 1
        for source, opened in self._files:
            wanted = partial(_wants, self._selection, start)
            with _reading(source, opened), closing(opened.chunks(wanted, self._types)) as chunks:
                for chunk in chunks:
                    numbers = self._selection.pick(chunk, start)
                    records = chunk.take([number - start for number in numbers])
                    for number, record in zip(numbers, records, strict=True):
                        yield self._reader.read(number, record)
                    start += len(chunk)
                    if self._selection.ended:
                        return

    def _matching_numbers(self) -> Iterator[Numbers]:
        """Of all records that meet the condition, by a look at all files."""
        if self._selection.where is None and self._total is not None:
            yield from row_numbers(self._total)
            return
        start = 1
        for source, opened in self._files:
            with _reading(source, opened), closing(opened.chunks(lambda *_: True, self._types)) as chunks:
                for chunk in chunks:
                    yield self._selection.matching(chunk, start)
                    start += len(chunk)


def _wants(selection: Selection, start: int, index: int, count: int) -> bool:
    """Of records of a file whose first is number `start`."""
    return selection.wants(start + index, count)


@contextmanager
def _reading(source: Source, opened: Opened) -> Iterator[None]:
    """Says where reading broke off, and whether the file was changed meanwhile."""
    try:
        yield
    except READ_ERRORS as error:
        source.check_unchanged()
        raise cant_read(source, opened.reached, error) from error
    source.check_unchanged()


def _sum(counts: Sequence[int | None]) -> int | None:
    known = [count for count in counts if count is not None]
    return sum(known) if len(known) == len(counts) else None


class _Reader:
    """Makes items of records, and knows which ids are taken by rows that run."""

    def __init__(self, maker: RowMaker, clock: Clock, taken: Iterable[tuple[int, str]]) -> None:
        self._maker = maker
        self._clock = clock
        self._ids = TakenIds()
        self._ids.claim_all(taken)

    def read(self, number: int, record: Record) -> Row | RowFault:
        read = _Read()
        try:
            self._take(number, record, read)
        except Fault as fault:
            return RowFault(self._ref(number, record, read), fault.code, fault.message)
        assert read.asked is not None
        return Row(self._ref(number, record, read), *read.asked[1:])

    def _take(self, number: int, record: Record, read: _Read) -> None:
        """Note one thing after the other, so that a fault says as much as could be read. Raises `Fault`."""
        value = record.value
        if record.fault is not None and value is None:
            raise record.fault
        row_id = self._maker.id_of(value)
        if row_id is not None:
            check_writable(row_id)
            read.id = row_id
        check_writable(value)
        read.carried = self._maker.carried_of(value)
        if record.fault is not None:
            raise record.fault
        read.asked = self._maker.asked(value)
        self._claim(number, read.id)

    def _ref(self, number: int, record: Record, read: _Read) -> RowRef:
        row_id = str(number) if read.id is None else read.id
        kind = RowKind.PROMPT if read.asked is None else read.asked.kind
        return RowRef(number, row_id, record.where, self._clock.now_ns(), kind, read.carried)

    def _claim(self, number: int, given: str | None) -> None:
        row_id = str(number) if given is None else given
        if not self._ids.claim(row_id, number):
            fix = "give each row its own"
            if given is None:
                fix = "it is this row's number, so give the row an id of its own"
            raise Fault("duplicate_id", f"id {show(row_id)} is taken by an earlier row: {fix}")


@dataclass(slots=True)
class _Read:
    """What is known of a row so far."""

    id: str | None = None
    carried: Mapping[str, Any] = field(default_factory=dict)
    asked: Asked | None = None
