"""What earlier sessions of a run left in its directory. Mends what a crash left half done; knows no row's meaning."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

from cbatch.errors import OutputError
from cbatch.outputs.carried import RESULT_COLUMNS, Column
from cbatch.outputs.directory import owns, remove_temporaries
from cbatch.outputs.files import remove, remove_folder, temporary, writing
from cbatch.outputs.final import is_written, result_groups
from cbatch.outputs.groups import Group, parquet_metadata
from cbatch.outputs.history import held, last_ns, remove_held
from cbatch.outputs.journal.layout import Layout, number_of
from cbatch.outputs.journal.rolling import roll
from cbatch.outputs.merge import merged
from cbatch.outputs.schema import carried_columns
from cbatch.outputs.swap import finish_swap
from cbatch.row_set import RowSet
from cbatch.types import FinishReason

_HISTORY = ("requests", "steps")
_FAILED = (FinishReason.ERROR.value, FinishReason.CANCELLED.value)


@dataclass(slots=True)
class Stored:
    """What a run has on disk. In memory is a bit or two of each row."""

    layout: Layout
    base: Path | None = None
    """The one file that holds results of earlier sessions, if any does."""
    done: RowSet = field(default_factory=RowSet)
    """Rows with a result that stays: with `retry_failed`, without those that failed."""
    num_failed: int = 0
    """Rows with a result that says they failed, whether it stays or not."""
    finish_reasons: Counter[str] = field(default_factory=Counter)
    """How many of `done` ended so."""
    clock_ns: int = 0
    """When the last session ended, on the run's clock."""
    columns: tuple[Column, ...] | None = None
    """Of carried fields, as earlier sessions made them; None where there are none yet."""
    complete: bool = False
    """Whether the final form stands, and holds a result of every row that it was made of."""
    dropped_bytes: int = 0
    """What a crash left half written in the journal."""
    next_segment: int = 0
    """A number that no file has, nor any later one."""

    def taken(self, read_faults: frozenset[str] = frozenset()) -> Iterator[tuple[int, str]]:
        """Row and id of each of `done` whose error code isn't one of these, ascending by row.

        Raises `OutputError` where a file can't be read.
        """
        for table in merged(self.groups(), "input", ["row", "id", "error_code"]):
            codes = table["error_code"].to_pylist()
            for row, row_id, code in zip(table["row"].to_pylist(), table["id"].to_pylist(), codes, strict=True):
                if code not in read_faults and row in self.done:
                    yield row, row_id

    def groups(self) -> list[Group]:
        """All results, oldest first."""
        return result_groups(self.layout, self.base)


def open_stored(
    directory: Path, output_format: str, *, target: Path | None = None, retry_failed: bool = False
) -> Stored:
    """What is in the directory, which may be missing. Only the holder of its lock may call it.

    Raises `WriteError` where what a crash left can't be mended, `OutputError` where a file isn't what a run wrote.
    """
    layout = Layout(directory, output_format, target)
    if not owns(directory):
        return Stored(layout)
    stored = Stored(layout, dropped_bytes=_mend(layout))
    stored.base = _base(layout)
    stored.next_segment = _next_segment(layout)
    stored.clock_ns = max(last_ns(layout, "requests", "finished_ns"), last_ns(layout, "steps", "end_ns"))
    stored.columns = _columns(layout, stored.base)
    _count(stored, retry_failed)
    return stored


def _mend(layout: Layout) -> int:
    """Bring every file into a state that a session may have left; returns the bytes that were torn off."""
    finish_swap(layout)
    with writing(layout.directory):
        remove_temporaries(layout.directory)
        if layout.target is not None:
            remove(temporary(layout.target))
    for table in _HISTORY:
        remove_held(layout, table)
    dropped = sum(roll(layout, number, whole=False) for number in layout.segments())
    with writing(layout.journal):
        remove_folder(layout.journal)
    return dropped


def _base(layout: Layout) -> Path | None:
    if layout.output_format == "csv":
        return None
    candidates = (layout.final_file, layout.unfinished_file)
    return next((path for path in candidates if path is not None and path.exists()), None)


def _next_segment(layout: Layout) -> int:
    found = [held(layout, table).through for table in _HISTORY]
    found += [number_of(piece) for table in ("results", *_HISTORY) for piece in layout.pieces(table)]
    return 1 + max(found)


def _count(stored: Stored, retry_failed: bool) -> None:
    """One pass over all results."""
    outcomes: defaultdict[str, RowSet] = defaultdict(RowSet)
    for group in stored.groups():
        for reason, rows in _by_reason(group):
            for row in rows:
                if not stored.done.add(row):  # this one is newer
                    for others in outcomes.values():
                        others.discard(row)
                outcomes[reason].add(row)
    total = held(stored.layout, "requests").results
    stored.complete = total == len(stored.done) and is_written(stored.layout) and not stored.layout.journal.exists()
    stored.num_failed = sum(len(outcomes[reason]) for reason in _FAILED)
    if retry_failed:
        for reason in _FAILED:
            for row in outcomes.pop(reason, ()):
                stored.done.discard(row)
    stored.finish_reasons = Counter({reason: len(rows) for reason, rows in outcomes.items() if len(rows)})


def _by_reason(group: Group) -> Iterator[tuple[str, list[int]]]:
    table = group.read(["row", "finish_reason"])
    rows, reasons = table["row"].to_numpy(), table["finish_reason"].combine_chunks().dictionary_encode()
    codes = reasons.indices.to_numpy()
    for code, reason in enumerate(reasons.dictionary.to_pylist()):
        yield reason, rows[codes == code].tolist()


def _columns(layout: Layout, base: Path | None) -> tuple[Column, ...] | None:
    """By the newest file; one without rows tells them too."""
    files = [*([] if base is None else [base]), *layout.pieces("results")]
    if layout.renders_lines or not files:
        return None
    found = parquet_metadata(files[-1]).schema.to_arrow_schema()
    columns = carried_columns(found)
    if unknown := set(found.names).difference(RESULT_COLUMNS, (column.name for column in columns)):
        raise OutputError(
            f"{files[-1]} is of another version of cbatch, or not of cbatch at all: its columns "
            f"{', '.join(sorted(unknown))} aren't known. Give another output, or --force to begin anew"
        )
    return columns
