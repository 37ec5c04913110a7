"""Reads a segment of the journal, be it torn or damaged. Changes nothing."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import IO

import pyarrow as pa

from cbatch.outputs.journal.frames import (
    BATCHES,
    HEAD,
    SCHEMAS,
    checksum,
    parse_batches,
    parse_head,
    parse_schemas,
)


class SegmentReader:
    """Iterates over the frames of rows in a segment, by table, up to the first one that isn't whole.

    Raises `OSError` where the file can't be read; no bytes in it raise anything.
    """

    def __init__(self, path: Path) -> None:
        self._path = path
        self.schemas: dict[str, pa.Schema] = {}
        """By table, once the first frame is read; none where that one isn't whole."""
        self.dropped_bytes = 0
        """What follows the last whole frame; known when the iteration is over."""

    def __iter__(self) -> Iterator[dict[str, pa.RecordBatch]]:
        with open(self._path, "rb") as file:
            size = os.fstat(file.fileno()).st_size
            good = 0
            while (batches := self._next(file, size - good)) is not None:
                good = file.tell()
                if batches:
                    yield batches
            self.dropped_bytes = size - good

    def _next(self, file: IO[bytes], rest: int) -> dict[str, pa.RecordBatch] | None:
        """The next frame's rows, none of a frame of schemas; None where no whole frame follows."""
        head = parse_head(file.read(HEAD.size))
        if head is None or head.length > rest - HEAD.size:
            return None
        payload = file.read(head.length)
        if len(payload) != head.length or checksum(head.kind, payload) != head.checksum:
            return None
        try:
            return self._parse(head.kind, payload)
        except (ValueError, OSError, pa.ArrowException):  # Arrow's of bytes in memory: the disk has no part in it
            return None

    def _parse(self, kind: int, payload: bytes) -> dict[str, pa.RecordBatch] | None:
        if kind == BATCHES and self.schemas:
            return parse_batches(payload, self.schemas)
        if kind == SCHEMAS and not self.schemas:
            self.schemas = parse_schemas(payload)
            return {} if self.schemas else None
        return None
