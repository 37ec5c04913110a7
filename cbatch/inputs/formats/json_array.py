"""Reads a file that is one JSON array: a record for each item. Knows no fields.

The items are cut out by brackets and quotes and then decoded like lines of JSONL. So they give the same values and the
same faults, and a bad item costs no other: parsers of the whole stop at the first, and at whole numbers of 64 bits.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

from cbatch.errors import InputError
from cbatch.inputs.formats.json_lines import LinesFile
from cbatch.inputs.json_text import decode
from cbatch.inputs.lines import MAX_LINE
from cbatch.inputs.records import Chunk, Chunks, ValueChunk
from cbatch.inputs.sources import Source
from cbatch.inputs.streams import ByteStream

_TOKEN = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"|["\[\]{},]', re.DOTALL)
_STRING_END = re.compile(rb'[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_SPACE = b" \t\r\n"


_QUOTE, _COMMA, _CLOSE = b'",]'
_OPENING, _CLOSING = b"[{", b"]}"
_MAX_BLANKS = 1 << 20
"""Bytes to look through for the first that isn't blank."""


class JsonFile(LinesFile):
    """An array where the first character says so, else JSONL."""

    def __init__(self, source: Source, stdin: BinaryIO | ByteStream | None) -> None:
        super().__init__(source, stdin)
        self._items = 0

    @property
    def reached(self) -> str:
        return f"item {self._items}" if self._items else super().reached

    def read(self, stream: ByteStream) -> Chunks:
        if not _is_array(stream):
            yield from super().read(stream)
            return
        self._items = 0
        for raws in _Splitter(self.source.name).split(stream):
            chunk = self._item_chunk(raws, self._items + 1)
            self._items += len(raws)
            yield chunk

    def _item_chunk(self, raws: list[bytes], first: int) -> Chunk:
        name = self.source.name

        def place(index: int) -> str:
            return f"{name}, item {first + index}"

        return ValueChunk(len(raws), place, lambda index: decode(raws[index], "item"))


def _is_array(stream: ByteStream) -> bool:
    size = 1
    while len(ahead := stream.peek(size)) >= size and size <= _MAX_BLANKS:
        if begin := ahead.lstrip(_SPACE):
            return begin.startswith(b"[")
        size = len(ahead) + 1
    return False


class _Splitter:
    """Cuts one array into the bytes of its items."""

    def __init__(self, name: str) -> None:
        self._name = name
        self._count = 0
        self._parts: list[bytes] = []
        """Of the item that was begun."""
        self._size = 0
        self._depth = -1
        """Brackets open within the item; -1 outside the array."""
        self._in_string = False
        self._closed = False
        self._overrun = False

    def split(self, stream: ByteStream) -> Iterator[list[bytes]]:
        """The items that each read completes. Raises `InputError` where the array doesn't end, or the file goes on."""
        cut = b""
        while block := stream.read1():
            block = cut + block
            cut = b"\\" if (len(block) - len(block.rstrip(b"\\"))) % 2 else b""  # half an escape
            if raws := list(self._feed(block[: len(block) - len(cut)])):
                self._count += len(raws)
                yield raws
            if self._overrun:
                raise InputError(f"{self._name} goes on behind its array, after item {self._count}: give one array")
        if not self._closed:
            raise InputError(
                f"{self._name} can't be read past item {self._count}: the array doesn't end, so it may be cut off; "
                "complete the file"
            )

    def _feed(self, block: bytes) -> Iterator[bytes]:
        """The items that end in the block."""
        start = 0
        for at, token in self._structure(block):
            if token in _OPENING:
                self._depth += 1
                start = at + 1 if self._depth == 0 else start
            elif self._depth > 0:
                self._depth -= token in _CLOSING
            elif token in (_COMMA, _CLOSE):
                self._closed = token == _CLOSE
                item = self._item(block[start:at])
                start = at + 1
                if item or token == _COMMA:
                    yield item
        self._overrun = self._closed and bool(block[start:].strip(_SPACE))
        self._begin(block[start:])

    def _structure(self, block: bytes) -> Iterator[tuple[int, int]]:
        """Where brackets and commas stand outside strings."""
        at = 0
        while not self._closed:
            if self._in_string:
                end = _STRING_END.match(block, at)
                if end is None:
                    return
                self._in_string, at = False, end.end()
            found = _TOKEN.search(block, at)
            if found is None:
                return
            at = found.end()
            if block[found.start()] != _QUOTE:
                yield found.start(), block[found.start()]
            elif at - found.start() == 1:  # it ends in another block
                self._in_string = True
                return

    def _begin(self, part: bytes) -> None:
        if part and self._size <= MAX_LINE:
            self._parts.append(part)
            self._size += len(part)

    def _item(self, end: bytes) -> bytes:
        self._begin(end)
        raw = b"".join(self._parts).strip(_SPACE)
        self._parts, self._size = [], 0
        return raw
