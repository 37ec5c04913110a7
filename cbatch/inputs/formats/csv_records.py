"""Cuts the lines of a CSV file into records, of which a bad one costs no other. Knows no columns."""

from __future__ import annotations

import csv
from collections import deque
from collections.abc import Iterator
from typing import NamedTuple

from cbatch.inputs.fault import Fault
from cbatch.inputs.lines import line_blocks
from cbatch.inputs.streams import ByteStream

MAX_RECORD = 1 << 24
"""Characters of the lines that a quoted field may run over: what is longer is taken for a quote that never ends."""

_FIX = "close each quoted field, and double the quotes inside it"


class CsvRecord(NamedTuple):
    """One record, or why there is none."""

    line: int
    """Where it begins, 1-based."""
    fields: list[str] | Fault


def csv_records(stream: ByteStream, delimiter: str) -> Iterator[CsvRecord]:
    """The records that aren't blank lines.

    Where quoting goes wrong, the line that the record begins with is a fault, and what follows is read anew: so a quote
    that never ends doesn't swallow the rest of the file.
    """
    csv.field_size_limit(2**31 - 1)  # of the process; `_Lines` keeps records shorter
    lines = _Lines(stream)
    reader = csv.reader(lines, delimiter=delimiter, strict=True)
    while True:
        line = lines.begin_record()
        try:
            fields = next(reader)
        except StopIteration:
            return
        except csv.Error as error:
            lines.keep_first()
            yield CsvRecord(line, Fault("invalid_csv", f"the row isn't valid CSV ({error}): {_FIX}"))
            continue
        if lines.size > MAX_RECORD:
            yield CsvRecord(line, Fault("line_too_long", f"the row has more than {MAX_RECORD >> 20} MiB: shorten it"))
        elif fields:
            yield CsvRecord(line, _checked(fields))


def _checked(fields: list[str]) -> list[str] | Fault:
    text = "".join(fields)
    try:
        text.encode("utf-8")
    except UnicodeEncodeError as error:
        byte = ord(text[error.start]) - 0xDC00
        return Fault(
            "invalid_utf8", f"the row holds byte 0x{byte:02x}, which isn't valid UTF-8: save the file as UTF-8"
        )
    if "\0" in text:
        return Fault("invalid_csv", "the row holds a NUL character: remove it")
    return fields


class _Lines:
    """Hands lines to the parser, and takes back those that it shouldn't have used."""

    def __init__(self, stream: ByteStream) -> None:
        self._blocks = line_blocks(stream)
        self._ready: deque[str] = deque()
        self._number = 1
        """Of the first line that isn't part of a whole record."""
        self.taken: list[str] = []
        """By the record that is being parsed."""
        self.size = 0
        """Their characters."""

    def __iter__(self) -> _Lines:
        return self

    def __next__(self) -> str:
        if not self._ready:
            # the characters that bytes outside UTF-8 become tell them later
            self._ready.extend(raw.decode("utf-8", "surrogateescape") + "\n" for raw in next(self._blocks))
        if self.size > MAX_RECORD:
            raise csv.Error(f"a quote that stays open for more than {MAX_RECORD >> 20} MiB of lines")
        line = self._ready.popleft()
        self.taken.append(line)
        self.size += len(line)
        return line

    def begin_record(self) -> int:
        """The lines so far are done with; returns the number of the next."""
        self._number += len(self.taken)
        self.taken, self.size = [], 0
        return self._number

    def keep_first(self) -> None:
        """Only the first line of this record is done with."""
        first, *others = self.taken
        self._ready.extendleft(reversed(others))
        self.taken = [first]
