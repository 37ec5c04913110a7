"""The output directory: what is called how in it, and how it is made ready for a run. Knows no formats.

It is emptied of cbatch's own files, or set aside as a whole; nothing else is ever touched.
"""

from __future__ import annotations

import os
import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbatch.errors import OutputError
from cbatch.outputs.files import remove_folder, temporary

RESULTS_FOLDER = "results"
RESULTS_JSONL = "results.jsonl"
RESULTS_CSV = "results.csv"
JOURNAL = "journal"
"""The folder of what a run has finished and not yet brought into its tables."""
REQUESTS = "requests.parquet"
STEPS = "steps.parquet"
RUN_JSON = "run.json"
SWEEP = "sweep.parquet"
COMPARE_JSON = "compare.json"
PRESET_JSON = "preset.json"

_NUMBER = "[0-9]" * 5
_PART = f"part-{_NUMBER}.parquet"
_RESULTS = {"parquet": RESULTS_FOLDER, "jsonl": RESULTS_JSONL, "csv": RESULTS_CSV}


def output_paths(directory: Path, output_format: str, target: Path | None = None) -> dict[str, Path]:
    """What a complete run leaves, by what it is. `target` is the one file that its results go to, if they do."""
    results = directory / _RESULTS[output_format] if target is None else target
    return {
        "results": results,
        "requests": directory / REQUESTS,
        "steps": directory / STEPS,
        "run": directory / RUN_JSON,
    }


def part_path(directory: Path, number: int) -> Path:
    """The results' part `number`, counted from 0."""
    return directory / RESULTS_FOLDER / f"part-{number:05d}.parquet"


def check_directory(path: Path, force: bool) -> None:
    """Raise `OutputError` for what `prepare_directory` would refuse, as far as can be told without touching `path`."""
    with usable(path):
        try:
            mode = path.stat().st_mode
        except FileNotFoundError:
            return
        if not stat.S_ISDIR(mode):
            raise OutputError(f"{path} is a file, and the output is a directory: give another name")
        filled = any(path.iterdir())
    if filled and not force:
        raise OutputError(
            f"{path} exists and isn't empty: give another directory, or --force to replace the results in it"
        )


def prepare_directory(path: Path, force: bool) -> None:
    """Make `path` a directory that can be written and holds no earlier run.

    With `force`, an earlier run's files are removed and all others stay. Raises `OutputError` where `path` isn't a
    directory, can't be made or written, or isn't empty without `force`.
    """
    check_directory(path, force)
    with usable(path):
        path.mkdir(parents=True, exist_ok=True)
        _clear(path)
        with tempfile.TemporaryFile(dir=path):
            pass


@contextmanager
def usable(path: Path) -> Iterator[None]:
    """Turns an `OSError` into an `OutputError` that says that `path` can't be the output directory."""
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path} can't be used as the output directory: {error.strerror or error}; give another one"
        ) from error


def owns(directory: Path) -> bool:
    """Whether a run of cbatch has begun in the directory."""
    return any(os.path.exists(directory / name) for name in (RUN_JSON, JOURNAL, REQUESTS))


def set_aside(path: Path) -> Path:
    """Rename a directory or a file to the first of `path.1`, `path.2`, ... that is free, which is returned.

    Raises `OutputError` where the system refuses, and for `.` and what ends in `..`, which have no name of their own.
    """
    if path.name in ("", ".."):
        raise OutputError(f"{path} can't be renamed, to keep what is in it: give another --output, or its name in full")
    number = 1
    while os.path.lexists(free := path.with_name(f"{path.name}.{number}")):
        number += 1
    try:
        os.rename(path, free)
    except OSError as error:
        raise OutputError(
            f"{path} can't be renamed to {free}: {error.strerror or error}; rename it yourself"
        ) from error
    return free


def remove_temporaries(directory: Path) -> None:
    """Unlink what was half written when a run broke off. Raises `OSError`."""
    for own in list(_own_files(directory)):
        if own.name.startswith("."):
            own.unlink()


def _clear(path: Path) -> None:
    for own in list(_own_files(path)):
        own.unlink()
    for folder in (RESULTS_FOLDER, JOURNAL):
        remove_folder(path / folder)


def _own_files(path: Path) -> Iterator[Path]:
    """Files that cbatch wrote in `path`, finished or not."""
    for folder, pattern in (
        (RESULTS_FOLDER, _PART),
        (JOURNAL, f"*-{_NUMBER}.parquet"),
        (JOURNAL, f"{_NUMBER}.wal"),
        (JOURNAL, "swap.json"),
    ):
        yield from (path / folder).glob(pattern)
        yield from (path / folder).glob(f".{pattern}.tmp")
    for name in (RESULTS_JSONL, RESULTS_CSV, REQUESTS, STEPS, RUN_JSON, SWEEP, COMPARE_JSON, PRESET_JSON):
        for own in (path / name, temporary(path / name)):
            if own.exists() or own.is_symlink():
                yield own
