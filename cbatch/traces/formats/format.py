"""What a trace format is, and what reading one of its records gives. Knows no particular format."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from cbatch.traces.trace import TraceRequest

UNITS_NS = {"s": 1_000_000_000, "ms": 1_000_000}
"""Time units a file may count in, ns."""
UNIT_NAMES = {"s": "seconds", "ms": "milliseconds"}


class BadRow(Exception):
    """One record can't be read: what was found, and the fix. Costs no other record anything."""


class Options(NamedTuple):
    """What reading a record depends on beside the record."""

    unit_ns: int = 1
    """Of the file's times, where they are numbers."""
    block_size: int | None = None
    """Tokens of a prefix block."""
    count_tokens: Callable[[str], int] | None = None


class Entry(NamedTuple):
    """One well-formed record."""

    request: TraceRequest | None
    """Its arrival counts from wherever the file counts from, and lengths may be 0. None where it is left out."""
    changes: tuple[str, ...] = ()
    """What was changed or why it is left out, as a manifest counts it."""
    time_form: str = ""
    """How its time is written, where that can vary: `naive times with 7 fractional digits`."""


Reader = Callable[[Any], Entry]
"""From a record to an entry; raises `BadRow`."""
Rows = Callable[[Path, "Format"], Iterator[tuple[str, Any]]]
"""The records of a file in order, each with where it stands; a `BadRow` in place of one that can't be decoded."""


class Container(NamedTuple):
    """A kind of file: CSV, JSONL, a JSON array, Parquet."""

    name: str
    rows: Rows


@dataclass(frozen=True, slots=True)
class Format:
    """A trace format: what recognises it and how it is read."""

    name: str
    about: str
    """What to call it in a sentence."""
    container: Container
    columns: tuple[str, ...]
    """All of them must be there."""
    reader: Callable[[Options], Reader]
    """A reader for one pass over one file."""
    one_of: tuple[str, ...] = ()
    """At least one of them must be there."""
    optional: tuple[str, ...] = ()
    """Used where they are there."""
    time: str | None = None
    """The column with the arrival; None where the format has no times."""
    unit: str | None = None
    """What the times count, `s` or `ms`; None where they aren't plain numbers."""
    hashes: str | None = None
    """The column with prefix blocks."""
    block_size: int | None = None
    """Tokens of a block."""
    notes: Mapping[str, str] = field(default_factory=dict)
    """What each of the changes that its entries name means, to follow the number of entries in a sentence."""
    from_first: bool = True
    """Whether arrivals are counted from the first one; else they already count from the trace's beginning."""

    def matches(self, columns: Sequence[str]) -> bool:
        """Whether a file with these columns can be read as this format."""
        return set(self.columns) <= set(columns) and (not self.one_of or not set(self.one_of).isdisjoint(columns))

    @property
    def used(self) -> tuple[str, ...]:
        """Every column that is read."""
        return (*self.columns, *self.one_of, *self.optional)

    def __str__(self) -> str:
        needs = [*self.columns, *([" or ".join(self.one_of)] if self.one_of else [])]
        return f"{self.name} ({self.container.name}: {', '.join(needs)})"
