"""Reads plain text: a prompt a line, or a file that is one prompt as a whole."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import closing
from typing import Any

import pyarrow as pa

from cbatch.inputs.formats.json_lines import LinesFile
from cbatch.inputs.lines import MAX_LINE, text_of
from cbatch.inputs.records import NO_TYPES, Chunks, ValueChunk, Wanted
from cbatch.inputs.sources import Source
from cbatch.inputs.streams import open_text


class TextFile(LinesFile):
    """A record for each line that isn't blank."""

    decode = staticmethod(text_of)


class Document:
    """The file is one record; its name is the id."""

    types = NO_TYPES
    num_rows: int | None = 1
    reached = ""

    def __init__(self, source: Source) -> None:
        self.source = source

    def chunks(self, wanted: Wanted, types: Mapping[str, pa.DataType]) -> Chunks:
        del wanted, types
        yield ValueChunk(1, lambda _: self.source.name, lambda _: self._value())

    def _value(self) -> Any:
        with closing(open_text(self.source, None)) as stream:
            return {"id": self.source.document, "prompt": text_of(stream.read(MAX_LINE + 1), "file")}
