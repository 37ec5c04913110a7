"""One cbatch at a time writes to a directory. Knows nothing of what is in it.

The lock belongs to an open file, so that it goes with its process, however that ends.
"""

from __future__ import annotations

import errno
import fcntl
import os
import time
from pathlib import Path
from types import TracebackType

from cbatch.errors import OutputError

LOCK = ".lock"
PATIENCE_S = 7.0
"""Longer than a worker lives on after its parent was killed."""
_POLL_S = 0.05
_PID_BYTES = 32


class DirectoryLock:
    """While entered, no other process enters one for the same directory, which must exist and may be renamed meanwhile.

    A forked child that leaves it, as it ends, leaves the lock to its parent. Raises `OutputError` where another process
    still has it after `patience_s` seconds, and where the directory can't be used.
    """

    def __init__(self, directory: Path, *, patience_s: float = PATIENCE_S) -> None:
        self._directory = directory
        self._patience_s = patience_s

    def __enter__(self) -> DirectoryLock:
        try:
            self._folder = os.open(self._directory, os.O_RDONLY | os.O_DIRECTORY)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            self._file = self._acquire()
        except BaseException:
            os.close(self._folder)
            raise
        self._owner = os.getpid()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() == self._owner and _is_named(self._file, self._folder):
            os.unlink(LOCK, dir_fd=self._folder)
        os.close(self._file)
        os.close(self._folder)

    def _acquire(self) -> int:
        """The locked file, with our process id in it."""
        ends = time.monotonic() + self._patience_s
        while (file := self._attempt()) is None:
            if time.monotonic() > ends:
                raise OutputError(
                    f"another cbatch ({self._holder()}) is writing to {self._directory}: "
                    "wait for it to end, or give another -o"
                )
            time.sleep(_POLL_S)
        return file

    def _attempt(self) -> int | None:
        """None where another process has it."""
        try:
            file = os.open(LOCK, os.O_RDWR | os.O_CREAT, 0o644, dir_fd=self._folder)
        except OSError as error:
            raise self._unusable(error) from error
        try:
            fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
            if _is_named(file, self._folder):
                os.ftruncate(file, 0)
                os.pwrite(file, str(os.getpid()).encode(), 0)
                return file
        except OSError as error:
            if error.errno not in (errno.EWOULDBLOCK, errno.EACCES):
                os.close(file)
                raise self._unusable(error) from error
        os.close(file)
        return None

    def _holder(self) -> str:
        try:
            return f"pid {int((self._directory / LOCK).read_bytes()[:_PID_BYTES])}"
        except (OSError, ValueError):  # it is just beginning, or has just ended
            return "just beginning or ending"

    def _unusable(self, error: OSError) -> OutputError:
        return OutputError(
            f"{self._directory} can't be locked as the output directory: {error.strerror or error}; give another -o"
        )


def _is_named(file: int, folder: int) -> bool:
    """Whether the open file is still the one of its name: who had the lock before may have removed it."""
    try:
        return os.path.samestat(os.fstat(file), os.stat(LOCK, dir_fd=folder))
    except FileNotFoundError:
        return False
