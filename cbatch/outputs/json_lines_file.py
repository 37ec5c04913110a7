"""`results.jsonl` as a file that is written and read back. Knows the order of its fields, not how lines are made."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from cbatch.errors import OutputError
from cbatch.outputs import schema
from cbatch.outputs.files import writing
from cbatch.outputs.groups import reading
from cbatch.outputs.plain_file import PlainFile
from cbatch.outputs.results import CANCELLED
from cbatch.types import FinishReason

GROUP_BYTES = 8 << 20
"""Lines that are read at once."""

# A line begins with these fields, as `JsonLines` writes them.
_BEGINNING = r'^\{"id": "batch_req_(?P<row>\d+)", "custom_id": "(?P<id>(?:[^"\\]|\\.)*)", "response": (?P<failed>null)?'
# Inside a JSON string every quote has a backslash before it, so the first of these is the first choice's.
_REASON = r'"finish_reason": "(?P<reason>[a-z]+)"'


class JsonLinesFile(PlainFile):
    """The file in the making, under its temporary name. Raises `WriteError`."""

    def add(self, table: pa.Table) -> None:
        """Take rows of the table `schema.LINES`."""
        self.rows += table.num_rows
        with writing(self._path):
            self._file.writelines(table["line"].to_pylist())


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
            data = file.read(self.stop - self.start)
        chosen = pa.schema([schema.LINES.field(name) for name in columns or schema.LINES.names])
        try:
            lines = _Lines(data)
            found = {name: getattr(lines, name)() for name in chosen.names}
        except (ValueError, KeyError, TypeError) as error:
            raise OutputError(
                f"{self.path} holds something that cbatch didn't write, between bytes {self.start} and {self.stop}. "
                "Put back a good copy, or begin anew: give another output, or --force"
            ) from error
        return pa.table(found, schema=chosen)


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


class _Lines:
    """What lines hold, by column of the table. Raises `ValueError`, `KeyError` or `TypeError` for others than ours."""

    def __init__(self, data: bytes) -> None:
        ends = np.flatnonzero(np.frombuffer(data, np.uint8) == ord("\n")) + 1
        offsets = np.concatenate([[0], ends]).astype(np.int32)
        self._lines = pa.Array.from_buffers(pa.binary(), len(ends), [None, pa.py_buffer(offsets), pa.py_buffer(data)])
        self._heads = pc.extract_regex(self._lines, _BEGINNING)
        if self._heads.null_count or offsets[-1] != len(data) or not pc.all(pc.ends_with(self._lines, "}\n")).as_py():
            raise ValueError("half a line, or none of cbatch's")
        self._failed = np.flatnonzero(pc.equal(self._heads.field("failed"), b"null").to_numpy(zero_copy_only=False))

    def line(self) -> Any:
        return self._lines

    def row(self) -> Any:
        return self._heads.field("row").cast(pa.string()).cast(pa.int64())

    def id(self) -> Any:
        raw = self._heads.field("id").cast(pa.string())
        if not pc.any(pc.match_substring(raw, "\\")).as_py():
            return raw
        return pa.array([json.loads(f'"{text}"') for text in raw.to_pylist()], pa.string())

    def error_code(self) -> Any:
        codes: list[str | None] = [None] * len(self._lines)
        for index in self._failed.tolist():
            codes[index] = json.loads(self._lines[index].as_py())["error"]["code"]
        return pa.array(codes, pa.string())

    def finish_reason(self) -> Any:
        failed = pc.if_else(
            pc.equal(self.error_code(), CANCELLED), FinishReason.CANCELLED.value, FinishReason.ERROR.value
        )
        reasons = pc.struct_field(pc.extract_regex(self._lines, _REASON), "reason")
        found = pc.coalesce(failed, reasons.cast(pa.string()))
        if found.null_count:
            raise ValueError("a response without a choice")
        return found
