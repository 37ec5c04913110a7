"""A trace file of some format as a stream of entries, with the options that fit it. Changes nothing."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

from cbatch.errors import UsageError
from cbatch.traces.detect import recognise
from cbatch.traces.formats.format import UNITS_NS, BadRow, Entry, Format, Options
from cbatch.traces.inspection import Inspection


@dataclass(frozen=True, slots=True)
class TraceSource:
    """Which file, and how to read it."""

    path: Path
    format: Format
    columns: tuple[str, ...]
    """That the file has; empty where nobody looked."""
    unit: str | None
    """What the times count; None where they aren't plain numbers."""
    options: Options

    def entries(self) -> Iterator[tuple[str, Entry | BadRow]]:
        """Every record with its place, in file order. Raises `InputError` where the file can't be read any further."""
        read = self.format.reader(self.options)
        for where, record in self.format.container.rows(self.path, self.format):
            entry: Entry | BadRow
            if isinstance(record, BadRow):
                entry = record
            else:
                try:
                    entry = read(record)
                except BadRow as bad:
                    entry = bad
            yield where, entry

    def inspection(self) -> Inspection:
        """One that has seen nothing yet."""
        return Inspection(self.format, self.columns, self.unit)


def open_source(
    path: Path,
    as_format: Format | None,
    *,
    time_unit: str | None = None,
    block_size: int | None = None,
    count_tokens: Callable[[str], int] | None = None,
) -> TraceSource:
    """Raises `InputError` where no format is told or found, `UsageError` for options that don't fit it."""
    form, columns = recognise(path) if as_format is None else (as_format, ())
    if time_unit is not None and form.unit is None:
        raise UsageError(f"what the times of {form.about} count is known: leave --time-unit out")
    if time_unit is not None and time_unit not in UNITS_NS:
        raise UsageError(f"time-unit is {time_unit!r}: give {' or '.join(UNITS_NS)}")
    if block_size is not None and form.hashes is None:
        raise UsageError(f"there are no prefix blocks in {form.about}: leave --block-size out")
    if block_size is not None and block_size < 1:
        raise UsageError(f"block-size is {block_size}: give 1 or more")
    unit = form.unit if time_unit is None else time_unit
    block = form.block_size if block_size is None else block_size
    return TraceSource(path, form, columns, unit, Options(UNITS_NS[unit] if unit else 1, block, count_tokens))
