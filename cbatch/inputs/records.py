"""Records as formats give them: many that follow one another, decoded only where they are asked for."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from itertools import islice
from types import MappingProxyType
from typing import Any, NamedTuple, Protocol, TypeVar

import pyarrow as pa

from cbatch.inputs.fault import Fault
from cbatch.inputs.streams import READ_ERRORS
from cbatch.inputs.where import Where
from cbatch.inputs.where_values import find_matches

T = TypeVar("T")

NO_TYPES: Mapping[str, pa.DataType] = MappingProxyType({})
"""Of sources without columns."""

Wanted = Callable[[int, int], bool]
"""Whether anything of the next `count` records of a source, from index `start` on, may be asked for."""


class Record(NamedTuple):
    """What one row says."""

    where: str
    """For messages: `prompts.jsonl:17`."""
    value: Any
    """A JSON value; cells of other types are `pa.Scalar`s. None where nothing could be read."""
    fault: Fault | None = None
    """What is wrong with it."""


class Chunk(Protocol):
    """Records that follow one another in a source."""

    def __len__(self) -> int: ...

    def matches(self, where: Where) -> Sequence[int]:
        """Indices, ascending, of the records that meet the condition, and of those of which nobody can tell."""
        ...

    def take(self, indices: Sequence[int]) -> Iterator[Record]:
        """The records at ascending indices."""
        ...


Chunks = Generator[Chunk, None, None]


class Opened(Protocol):
    """A source that can be read."""

    @property
    def types(self) -> Mapping[str, pa.DataType]:
        """Of its columns, where it has them."""
        ...

    @property
    def num_rows(self) -> int | None:
        """Records, where the file says how many."""
        ...

    @property
    def reached(self) -> str:
        """Where reading has got to: `line 17`; empty at the start."""
        ...

    def chunks(self, wanted: Wanted, types: Mapping[str, pa.DataType]) -> Chunks:
        """All records in order. `types` are those of the job's columns, which other sources may have widened.

        Raises `InputError`, and whatever of `READ_ERRORS`.
        """
        ...


class ValueChunk:
    """Records that are decoded one by one, each at most once while it may be asked for."""

    def __init__(self, length: int, place: Callable[[int], str], decode: Callable[[int], Any]) -> None:
        """`place` and `decode` take an index; `decode` may raise `Fault`."""
        self._length = length
        self._place = place
        self._decode = decode
        self._decoded: dict[int, Record] = {}

    def __len__(self) -> int:
        return self._length

    def matches(self, where: Where) -> Sequence[int]:
        records = [self._record(index) for index in range(self._length)]
        verdicts = find_matches(where, [fields_of(record.value) for record in records])
        for index, (record, verdict) in enumerate(zip(records, verdicts, strict=True)):
            if record.fault is not None:
                self._decoded[index] = record
            elif isinstance(verdict, Fault):
                self._decoded[index] = record._replace(fault=verdict)
            elif verdict:
                self._decoded[index] = record
        return list(self._decoded)

    def take(self, indices: Sequence[int]) -> Iterator[Record]:
        for index in indices:
            yield self._decoded.pop(index) if index in self._decoded else self._record(index)

    def _record(self, index: int) -> Record:
        try:
            return Record(self._place(index), self._decode(index))
        except Fault as fault:
            return Record(self._place(index), None, fault)


def in_batches(items: Iterator[T], first: int, others: int) -> Iterator[list[T]]:
    """Lists of so many items; those before a read error are handed out before it is raised."""
    size, error = first, None
    while error is None:
        batch: list[T] = []
        try:
            batch.extend(islice(items, size))
        except READ_ERRORS as caught:
            error = caught
        if batch:
            yield batch
        if error is None and len(batch) < size:
            return
        size = others
    raise error


def fields_of(value: Any) -> Mapping[str, Any]:
    """What conditions and templates see of a row; one that is only a string has it as its prompt."""
    if isinstance(value, str):
        return {"prompt": value}
    return value if isinstance(value, dict) else {}


def plain(value: Any) -> Any:
    """What Python has for a cell of Arrow's; null members of structs are left out, as JSON does.

    Raises `Fault` with `invalid_value`.
    """
    if not isinstance(value, pa.Scalar):
        return value
    try:
        return _without_nulls(value.as_py())
    except (ValueError, OverflowError) as error:
        raise Fault("invalid_value", f"a value of type {value.type} can't be read: {error}") from None


def _without_nulls(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: _without_nulls(member) for name, member in value.items() if member is not None}
    return [_without_nulls(item) for item in value] if isinstance(value, list) else value
