"""A segment of the journal being written: frames appended to one file. Knows no thread and no layout."""

from __future__ import annotations

import errno
import os
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path

import pyarrow as pa

from cbatch.outputs.files import remove, sync, writing
from cbatch.outputs.journal.frames import Batches, batches_frame, schemas_frame


class Segment:
    """A new file of frames. Raises `WriteError` where the disk refuses; every earlier frame then stays whole."""

    def __init__(self, path: Path, schemas: Mapping[str, pa.Schema]) -> None:
        self._path = path
        self.size = 0
        """Bytes of whole frames."""
        with writing(path):
            self._descriptor = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_APPEND, 0o666)
        try:
            self._append(schemas_frame(schemas))
            with writing(path):
                sync(path.parent)
        except BaseException:
            self.close()
            with suppress(OSError):
                remove(path)
            raise

    def append(self, batches: Batches) -> None:
        """Write a frame; it is on disk when this returns."""
        self._append(batches_frame(batches))

    def close(self) -> None:
        """Let go of the file. Calling it again does nothing."""
        if self._descriptor >= 0:
            os.close(self._descriptor)
            self._descriptor = -1

    def _append(self, frame: bytes) -> None:
        try:
            with writing(self._path):
                rest = memoryview(frame)
                while rest:
                    rest = rest[os.write(self._descriptor, rest) :]
                os.fsync(self._descriptor)
                if os.fstat(self._descriptor).st_nlink == 0:
                    raise FileNotFoundError(errno.ENOENT, "it was removed")
        except BaseException:
            with suppress(OSError):  # half a frame does no harm: readers drop it
                os.ftruncate(self._descriptor, self.size)
            raise
        self.size += len(frame)
