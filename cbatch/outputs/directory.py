"""The output directory before a run: made, or emptied of cbatch's own files. Never touches anything else."""

from __future__ import annotations

import stat
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from cbatch.errors import OutputError
from cbatch.outputs.files import temporary

RESULTS_FOLDER = "results"
RESULTS_JSONL = "results.jsonl"
REQUESTS = "requests.parquet"
STEPS = "steps.parquet"
RUN_JSON = "run.json"
SWEEP = "sweep.parquet"
COMPARE_JSON = "compare.json"
PRESET_JSON = "preset.json"

_PART = f"part-{'[0-9]' * 5}.parquet"


def output_paths(directory: Path, output_format: str) -> dict[str, Path]:
    """What a run leaves in `directory`, by what it is."""
    results = RESULTS_FOLDER if output_format == "parquet" else RESULTS_JSONL
    names = {"results": results, "requests": REQUESTS, "steps": STEPS, "run": RUN_JSON}
    return {what: directory / name for what, name in names.items()}


def part_path(directory: Path, number: int) -> Path:
    """The results' part `number`, counted from 0."""
    return directory / RESULTS_FOLDER / f"part-{number:05d}.parquet"


def check_directory(path: Path, force: bool) -> None:
    """Raise `OutputError` for what `prepare_directory` would refuse, as far as can be told without touching `path`."""
    with _usable(path):
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
    with _usable(path):
        path.mkdir(parents=True, exist_ok=True)
        _clear(path)
        with tempfile.TemporaryFile(dir=path):
            pass


@contextmanager
def _usable(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        raise OutputError(
            f"{path} can't be used as the output directory: {error.strerror or error}; give another one"
        ) from error


def _clear(path: Path) -> None:
    for own in list(_own_files(path)):
        own.unlink()
    results = path / RESULTS_FOLDER
    if results.is_dir() and not any(results.iterdir()):
        results.rmdir()


def _own_files(path: Path) -> Iterator[Path]:
    """Files that cbatch wrote in `path`, finished or not."""
    results = path / RESULTS_FOLDER
    yield from results.glob(_PART)
    yield from results.glob(f".{_PART}.tmp")
    for name in (RESULTS_JSONL, REQUESTS, STEPS, RUN_JSON, SWEEP, COMPARE_JSON, PRESET_JSON):
        for own in (path / name, temporary(path / name)):
            if own.exists() or own.is_symlink():
                yield own
