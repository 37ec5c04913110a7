"""How a file gets its final name: only once it is complete and on disk. Knows no formats and no layout."""

from __future__ import annotations

import os
from collections.abc import Collection, Iterator
from contextlib import contextmanager, suppress
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
    publish_all([path])


def publish_all(paths: Collection[Path]) -> None:
    """As `publish` for each of them: all bytes are on disk before the first gets its name. Raises `OSError`."""
    for path in paths:
        sync(temporary(path))
    for path in paths:
        os.replace(temporary(path), path)
    for folder in {path.parent for path in paths}:
        sync(folder)


def sync(path: Path) -> None:
    """Wait until a file, or the names in a folder, are on disk. Raises `OSError`."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def remove(path: Path) -> None:
    """Unlink a file that may be gone already. Raises `OSError`."""
    with suppress(FileNotFoundError):
        os.unlink(path)


def make_folder(path: Path) -> None:
    """Make a folder whose name is on disk, in one that exists. Raises `OSError`."""
    if not path.is_dir():
        os.mkdir(path)
        sync(path.parent)


def remove_folder(path: Path) -> None:
    """Remove a folder unless it holds something. Raises `OSError`."""
    if path.is_dir() and not any(path.iterdir()):
        os.rmdir(path)


@contextmanager
def writing(path: Path) -> Iterator[None]:
    """Turns an `OSError` while `path` is written into a `WriteError` that says what is kept."""
    try:
        yield
    except OSError as error:
        reason = error if error.errno is None else os.strerror(error.errno)  # Arrow wraps it in words of its own
        raise WriteError(
            f"{path} can't be written: {reason}. What was finished before is kept. "
            "Free some space or give another output directory, and run again"
        ) from error
