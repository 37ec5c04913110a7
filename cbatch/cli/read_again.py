"""Whether a job that is gone on with would read its own results as rows. Looks at names; imports nothing heavy."""

from __future__ import annotations

import glob
import os
from collections.abc import Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from cbatch.cli.options import OutputFormat

_RESULTS = {
    OutputFormat.parquet: "results/part-00000.parquet",
    OutputFormat.jsonl: "results.jsonl",
    OutputFormat.csv: "results.csv",
}


def results_in(directory: Path, form: OutputFormat, target: Path | None) -> list[Path]:
    """Files that a run leaves, one of each kind."""
    own = [directory / name for name in ("run.json", "requests.parquet", _RESULTS[form])]
    return own if target is None else [target, *own]


def read_again(inputs: Sequence[str], form: str, results: Sequence[Path]) -> tuple[Path, str] | None:
    """The first of `results` that an input stands for, and that input: a directory above it, or a glob.

    `form` is the inputs' format as given: with another one than `auto`, a directory's files of other forms don't count.
    """
    for name in inputs:
        for path in results:
            if os.path.isdir(name):
                found = form in ("auto", path.suffix[1:]) and _is_below(path, name)
            else:
                found = glob.has_magic(name) and not os.path.lexists(name) and _matches(path, name)
            if found:
                return path, name
    return None


def _is_below(path: Path, folder: str) -> bool:
    """Whether the path lies in the directory, and isn't hidden there."""
    parts = Path(os.path.relpath(os.path.realpath(path), os.path.realpath(folder))).parts
    return not any(part.startswith((".", "_")) for part in parts)


def _matches(path: Path, pattern: str) -> bool:
    return _parts_match(_parts(path), _parts(pattern))


def _parts(path: Path | str) -> tuple[str, ...]:
    return Path(os.path.abspath(path)).parts


def _parts_match(parts: Sequence[str], patterns: Sequence[str]) -> bool:
    """As `glob.glob` does with `recursive=True`, for a file that needn't exist."""
    if not patterns:
        return not parts
    first, rest = patterns[0], patterns[1:]
    if first == "**" and _parts_match(parts, rest):
        return True
    if not parts or (parts[0].startswith(".") and not first.startswith(".")):
        return False
    if first == "**":
        return _parts_match(parts[1:], patterns)
    return fnmatchcase(parts[0], first) and _parts_match(parts[1:], rest)
