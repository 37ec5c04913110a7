"""Reads JSONL: a JSON value a line. Knows no fields."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from typing import Any, BinaryIO

import pyarrow as pa

from cbatch.inputs.json_text import decode
from cbatch.inputs.lines import line_blocks
from cbatch.inputs.records import NO_TYPES, Chunk, Chunks, ValueChunk, Wanted
from cbatch.inputs.sources import Source
from cbatch.inputs.streams import ByteStream, open_text


class LinesFile:
    """A record for each line that isn't blank; a line is decoded only when it is asked for."""

    types = NO_TYPES
    num_rows: int | None = None
    decode: Callable[[bytes], Any] = staticmethod(decode)

    def __init__(self, source: Source, stdin: BinaryIO | ByteStream | None) -> None:
        self.source = source
        self._stdin = stdin
        self._line = 0

    @property
    def reached(self) -> str:
        return f"line {self._line}" if self._line else ""

    def chunks(self, wanted: Wanted, types: Mapping[str, pa.DataType]) -> Chunks:
        """A chunk for each read, so that lines of a pipe are handed on as they come."""
        del wanted, types  # lines that nobody asks for cost next to nothing
        self._line = 0
        with closing(open_text(self.source, self._stdin)) as stream:
            yield from self.read(stream)

    def read(self, stream: ByteStream) -> Chunks:
        for lines in line_blocks(stream):
            chunk = self._chunk(lines, self._line + 1)
            self._line += len(lines)
            yield chunk

    def _chunk(self, lines: Sequence[bytes], first: int) -> Chunk:
        filled = [at for at, line in enumerate(lines) if line and not line.isspace()]
        name, decode = self.source.name, self.decode

        def place(index: int) -> str:
            return f"{name}:{first + filled[index]}"

        return ValueChunk(len(filled), place, lambda index: decode(lines[filled[index]].rstrip(b"\r")))
