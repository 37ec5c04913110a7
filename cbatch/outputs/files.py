"""How a file gets its final name: only once it is complete and on disk. Knows no formats and no layout."""

from __future__ import annotations

import os
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbatch.errors import OutputError


class WriteError(OutputError):
    """The run can't go on writing its output, as on a full disk."""

    exit_code = 1


def temporary(path: Path) -> Path:
    """Where `path` is written until it's complete: a hidden name in the same folder, so that renaming is atomic."""
    return path.with_name(f".{path.name}.tmp")


def publish(path: Path) -> None:
    """Give `temporary(path)` its final name, after its bytes are on disk. Raises `OSError`."""
    _sync(temporary(path))
    temporary(path).replace(path)
    _sync(path.parent)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an `OSError` while `path` is written into a `WriteError` that says what is kept."""
    try:
        yield
    except OSError as error:
        reason = error if error.errno is None else os.strerror(error.errno)  # Arrow wraps it in words of its own
        raise WriteError(
            f"{path} can't be written: {reason}. What has its final name in {path.parent} is complete "
            "and kept. Free some space or give another output directory, and run again"
        ) from error


def _sync(path: Path) -> None:
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)
