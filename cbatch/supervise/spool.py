"""Standard input of a supervised run, kept in a file, so that a new worker can read it again. Knows no lines.

The parent copies what comes, and each worker reads the file from its beginning.
"""

from __future__ import annotations

import io
import os
import stat
import tempfile
import time
from pathlib import Path
from typing import BinaryIO

from cbatch.errors import RunFailed
from cbatch.supervise.heartbeat import Heartbeat

MOST_AHEAD = 64 << 20
"""Bytes that may be copied before the worker reads them: input that nobody waits for is left in the pipe."""
_CHUNK = 1 << 18
_POLL_S = 0.02


class Spool:
    """Copies from descriptor `source`. A regular file there is read as it is."""

    def __init__(self, source: int, directory: Path | None, heartbeat: Heartbeat) -> None:
        """The copy is a file without a name in `directory`, or where temporary files go. Raises `RunFailed`."""
        self.source = source
        self._heartbeat = heartbeat
        self._written = 0
        if stat.S_ISREG(os.fstat(source).st_mode):
            self._file, self._start = source, os.lseek(source, 0, os.SEEK_CUR)
            heartbeat.stdin_end = 0  # it ends where nothing more is read
        else:
            self._file, self._start = _temporary(directory), 0

    @property
    def ended(self) -> bool:
        """Whether all is there that will ever come."""
        return self._heartbeat.stdin_end is not None

    @property
    def full(self) -> bool:
        """Whether the worker should read first."""
        return self._written - self._heartbeat.stdin_read >= MOST_AHEAD

    def copy(self) -> None:
        """Take in what there is: `source` must be readable. Raises `RunFailed`."""
        try:
            data = os.read(self.source, _CHUNK)
        except OSError as error:
            raise RunFailed(f"stdin can't be read: {error.strerror or error}; give a file instead of -") from error
        if not data:
            self._heartbeat.stdin_end = self._written
        try:
            while data:
                count = os.write(self._file, data)
                self._written += count
                data = data[count:]
        except OSError as error:
            raise RunFailed(
                f"stdin can't be kept, for the case that the worker dies: {error.strerror or error}; make room, "
                "or give a file instead of -"
            ) from error

    def reader(self) -> BinaryIO:
        """For one worker: all from the beginning, each byte as soon as it is there."""
        return io.BufferedReader(_SpoolReader(self._file, self._start, self._heartbeat), _CHUNK)

    def head(self, size: int) -> bytes:
        """The first `size` bytes, as soon as they are there; all, where it ends before. Moves no reader."""
        while True:
            ended = self.ended  # before the read: what came before the end is read first
            data = os.pread(self._file, size, self._start)
            if len(data) == size or ended:
                return data
            time.sleep(_POLL_S)


class _SpoolReader(io.RawIOBase):
    """Waits for more until the heartbeat says that no more will come."""

    def __init__(self, descriptor: int, start: int, heartbeat: Heartbeat) -> None:
        self._descriptor = descriptor
        self._start = start
        self._read = 0
        self._heartbeat = heartbeat

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: bytearray | memoryview, /) -> int:  # type: ignore[override]
        while True:
            end = self._heartbeat.stdin_end  # before the read: what came before the end is read first
            data = os.pread(self._descriptor, len(buffer), self._start + self._read)
            if data or (end is not None and self._read >= end):
                break
            time.sleep(_POLL_S)
        buffer[: len(data)] = data
        self._read += len(data)
        self._heartbeat.stdin_read = self._read
        return len(data)


def _temporary(directory: Path | None) -> int:
    """A file that has no name and goes with its last descriptor, which this is."""
    usable = directory is not None and os.access(directory, os.W_OK)
    try:
        with tempfile.TemporaryFile(dir=directory if usable else None) as file:
            return os.dup(file.fileno())
    except OSError as error:
        raise RunFailed(
            f"there is no place to keep stdin: {error.strerror or error}; give a file instead of -"
        ) from error
