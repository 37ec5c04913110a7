"""A job's directory: who may write to it, what an earlier run left in it, and whether that can be gone on with."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.cli.identity import Identity, differences
from cbatch.cli.run_options import RunOptions
from cbatch.errors import OutputError
from cbatch.outputs import Stored, check_directory, open_stored, owns, read_run_json, set_aside, usable
from cbatch.supervise.lock import LOCK, DirectoryLock


@dataclass(frozen=True, slots=True)
class Earlier:
    """A run that is gone on with."""

    record: Mapping[str, Any]
    """Its run.json."""
    stored: Stored
    complete: bool
    """Whether nothing is left to do, unless stdin holds more than it did."""


@contextmanager
def held(path: Path) -> Iterator[None]:
    """Keep other processes from writing to the directory, which is made; one that stays empty goes again.

    Raises `OutputError`.
    """
    made = _make(path)
    try:
        with DirectoryLock(path):
            yield
    finally:
        for folder in made:
            with suppress(OSError):
                folder.rmdir()


def make_way(options: RunOptions) -> str | None:
    """Before a job begins: see that nothing is in its way, or, with `--force`, set an earlier run aside and say so.

    Raises `OutputError`.
    """
    path, target = options.directory(), options.target
    if not owns(path):
        _check_free(path, target, force=options.force)
        return None
    if not options.force:
        return None
    with DirectoryLock(path):
        kept = set_aside(path)
    if target is not None and os.path.lexists(target):
        set_aside(target)
    return f"the earlier run is kept as {kept}"


def earlier_run(options: RunOptions, identity: Identity) -> Earlier | None:
    """What there is to go on with. Raises `OutputError` where it is another job."""
    path = options.directory()
    if not owns(path):
        return None
    record = read_run_json(path) or {}
    if differing := _differing(record, identity):
        raise OutputError(
            f"{path} holds a run that differs: {'; '.join(differing)}. Give the same again to resume it, another "
            "--output, or --force to start over (what is there is kept)"
        )
    form, retries = options.results_format.value, options.retry_failed
    stored = open_stored(path, form, target=options.target, retry_failed=retries)
    stands = record.get("status") == "complete" and stored.complete
    return Earlier(record, stored, stands and not (retries and stored.num_failed > 0))


def _differing(record: Mapping[str, Any], identity: Identity) -> list[str]:
    earlier = record.get("identity")
    if not isinstance(earlier, dict):
        return ["its run.json isn't one of `cbatch run`, or is missing"]
    return differences(earlier, identity)


def _check_free(path: Path, target: Path | None, *, force: bool) -> None:
    """Of cbatch's own files there are none, so `--force` means only that others may stay."""
    if not _holds_only_a_lock(path):
        check_directory(path, force)
    if target is not None and os.path.lexists(target):
        if not force:
            raise OutputError(f"{target} exists: give another name, or --force to start over (what is there is kept)")
        set_aside(target)


def _holds_only_a_lock(path: Path) -> bool:
    """As a run leaves it that was killed before it had begun."""
    with usable(path):
        return os.path.isdir(path) and os.listdir(path) == [LOCK]


def _make(path: Path) -> list[Path]:
    """The directory with its parents; those that were made, the innermost first."""
    missing = []
    for folder in (path, *path.parents):
        if os.path.exists(folder):
            break
        missing.append(folder)
    with usable(path):
        path.mkdir(parents=True, exist_ok=True)
    return missing
