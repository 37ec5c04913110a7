"""The journal of a run: commits go to the open segment, and full segments become pieces. Knows no thread."""

from __future__ import annotations

from collections.abc import Mapping

import pyarrow as pa

from cbatch.clock import Clock
from cbatch.outputs.files import make_folder, writing
from cbatch.outputs.journal.frames import Batches
from cbatch.outputs.journal.layout import Layout
from cbatch.outputs.journal.rolling import roll
from cbatch.outputs.journal.segment import Segment

SEGMENT_ROWS = 5_000
SEGMENT_BYTES = 64 << 20
SEGMENT_NS = 300_000_000_000
"""A segment becomes pieces with so many results or bytes, or when its first rows are so old."""


class Journal:
    """Writes segments from `number` on. Raises `WriteError`; what was committed before is then safe."""

    def __init__(self, layout: Layout, schemas: Mapping[str, pa.Schema], clock: Clock, number: int) -> None:
        self.number = number
        """Of the next segment."""
        self._layout = layout
        self._schemas = schemas
        self._clock = clock
        self._segment: Segment | None = None
        self._rows = 0
        self._begun_ns = 0

    def commit(self, batches: Batches) -> None:
        """Make rows durable."""
        if not any(batch.num_rows for batch in batches.values()):
            return
        if self._segment is None:
            self._segment = self._open()
        self._segment.append(batches)
        if "results" in batches:
            self._rows += batches["results"].num_rows

    def keep(self) -> None:
        """Turn the open segment into pieces if that is due; to be called often."""
        if self._segment is not None and (
            self._rows >= SEGMENT_ROWS
            or self._segment.size >= SEGMENT_BYTES
            or self._clock.now_ns() - self._begun_ns >= SEGMENT_NS
        ):
            self.roll()

    def roll(self) -> None:
        """Turn the open segment into pieces, if there is one."""
        if self._segment is None:
            return
        self._segment.close()
        self._segment = None
        roll(self._layout, self.number, whole=True)
        self.number += 1

    def _open(self) -> Segment:
        with writing(self._layout.journal):
            make_folder(self._layout.journal)
        self._rows, self._begun_ns = 0, self._clock.now_ns()
        return Segment(self._layout.segment(self.number), self._schemas)

    def close(self) -> None:
        """Let go of the open segment."""
        if self._segment is not None:
            self._segment.close()
            self._segment = None
