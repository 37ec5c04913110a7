"""`results.jsonl` as a file that is written and read back. Knows the order of its fields, not how lines are made."""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa

from cbatch.errors import OutputError
from cbatch.outputs import schema
from cbatch.outputs.arrow import batch
from cbatch.outputs.files import remove, temporary, writing
from cbatch.outputs.groups import reading
from cbatch.outputs.results import CANCELLED

GROUP_BYTES = 8 << 20
"""Lines that are read at once."""

# A line begins with these fields, as `JsonLines` writes them.
_BEGINNING = re.compile(rb'\{"id": "batch_req_(\d+)", "custom_id": "((?:[^"\\]|\\.)*)", "response": (null)?')
# Inside a JSON string every quote has a backslash before it, so the first of these is the first choice's.
_REASON = b'"finish_reason": "'


class JsonLinesFile:
    """The file in the making, under its temporary name. Raises `WriteError`."""

    def __init__(self, path: Path) -> None:
        self.paths = (path,)
        self.rows = 0
        self._path = path
        with writing(path):
            self._file = temporary(path).open("wb")

    def add(self, table: pa.Table) -> None:
        """Take rows of the table `schema.LINES`."""
        self.rows += table.num_rows
        with writing(self._path):
            self._file.writelines(line + b"\n" for line in table["line"].to_pylist())

    def finish(self) -> None:
        """Complete the file."""
        with writing(self._path):
            self._file.close()

    def discard(self) -> None:
        """Drop the file."""
        with writing(self._path):
            self._file.close()
            remove(temporary(self._path))


@dataclass(frozen=True, slots=True)
class LinesGroup:
    """Some lines of the file, as rows of the table `schema.LINES`."""

    path: Path
    start: int
    stop: int
    """In bytes."""

    def read(self, columns: Sequence[str] | None = None) -> pa.Table:
        with reading(self.path), self.path.open("rb") as file:
            file.seek(self.start)
            lines = file.read(self.stop - self.start).splitlines()
        names = schema.LINES.names if columns is None else columns
        chosen = pa.schema([schema.LINES.field(name) for name in names])
        try:
            parsed = [_parse(line) for line in lines]
            return pa.Table.from_batches([batch(chosen, [[_READ[name](line) for line in parsed] for name in names])])
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(
                f"{self.path} holds something that cbatch didn't write, between bytes {self.start} and {self.stop}. "
                "Put back a good copy, or begin anew: give another output, or --force"
            ) from error


def line_groups(path: Path) -> Iterator[LinesGroup]:
    """Of a whole file."""
    with reading(path), path.open("rb") as file:
        size, start = path.stat().st_size, 0
        while start < size:
            file.seek(start + GROUP_BYTES)
            file.readline()
            stop = min(size, file.tell())
            yield LinesGroup(path, start, stop)
            start = stop


_Line = re.Match[bytes]
"""A line's beginning; its `string` is the whole line."""


def _parse(line: bytes) -> _Line:
    found = _BEGINNING.match(line)
    if found is None or line[-1:] != b"}":
        raise ValueError(line)
    return found


def _id(line: _Line) -> str:
    return str(json.loads(b'"%b"' % line[2])) if b"\\" in line[2] else line[2].decode()


def _error_code(line: _Line) -> str | None:
    return None if line[3] is None else str(json.loads(line.string)["error"]["code"])


def _finish_reason(line: _Line) -> str:
    code = _error_code(line)
    if code is not None:
        return "cancelled" if code == CANCELLED else "error"
    start = line.string.index(_REASON, line.end()) + len(_REASON)
    return line.string[start : line.string.index(b'"', start)].decode()


_READ: dict[str, Callable[[_Line], Any]] = {
    "row": lambda line: int(line[1]),
    "id": _id,
    "finish_reason": _finish_reason,
    "error_code": _error_code,
    "line": lambda line: line.string,
}
