"""A run that dies at any operation on files, and what the disk hadn't been told to keep is lost with it."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cbatch.outputs import open_stored
from tests.fuzzing import CASES
from tests.outputs.sessions import commit_at_once, end_row, files, open_writer, read_rows, run_session

OPERATIONS = ("open", "write", "fsync", "replace", "unlink", "mkdir", "rmdir", "ftruncate")
ROWS = range(1, 7)
STRIDE = 7 if CASES <= 1_000 else 1
"""Every operation, when the suite has time."""


class Crash(BaseException):
    """The process is dead."""


class Death:
    """Ends the process at the operation number `at`: it and all later ones raise. Knows what is on disk by then."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch, folder: Path, at: int) -> None:
        self.count = 0
        self.at = at
        self._folder = folder
        self._synced = {path.stat().st_ino: path.stat().st_size for path in folder.rglob("*")}
        """Bytes by inode."""
        for name in OPERATIONS:
            monkeypatch.setattr(os, name, self._guard(name, getattr(os, name)))

    @property
    def is_dead(self) -> bool:
        return self.count >= self.at

    def _guard(self, name: str, operation: Callable[..., Any]) -> Callable[..., Any]:
        def guarded(*arguments: Any, **options: Any) -> Any:
            self.count += 1
            if self.is_dead:
                if name == "write" and self.count == self.at:  # half of it may get there
                    operation(arguments[0], arguments[1][: len(arguments[1]) // 2])
                raise Crash(name)
            found = operation(*arguments, **options)
            if name == "fsync":
                status = os.fstat(arguments[0])
                self._synced[status.st_ino] = status.st_size
            return found

        return guarded

    def lose_what_was_not_synced(self) -> None:
        """Half of what was written since, of each file."""
        for path in self._folder.rglob("*"):
            size, kept = path.stat().st_size, self._synced.get(path.stat().st_ino, 0)
            if path.is_file() and size > kept:
                with path.open("r+b") as file:
                    file.truncate(kept + (size - kept) // 2)


def begin(directory: Path, output_format: str, target: Path | None) -> None:
    """A session that leaves parts, failed rows and all, before the one that dies."""
    stored = open_stored(directory, output_format, target=target)
    with open_writer(directory, output_format, stored=stored, target=target) as writer:
        for row in (2, 1, 3):
            end_row(writer, row, at_ns=row, text=f"of row {row}")


def die(
    directory: Path, output_format: str, target: Path | None, monkeypatch: pytest.MonkeyPatch, at: int
) -> tuple[bool, int]:
    """A session that goes on, up to its death; whether it died, and the last row that had been finished by then."""
    with monkeypatch.context() as patches:
        death, last = Death(patches, directory.parent, at), 0
        try:
            stored = open_stored(directory, output_format, target=target)
            writer = open_writer(directory, output_format, stored=stored, target=target)
            for row in ROWS:
                if row not in stored.done:
                    end_row(writer, row, at_ns=stored.clock_ns + 10, text=f"of row {row}")
                last = row
            writer.complete()
            writer.close()
        except Crash:
            pass
    death.lose_what_was_not_synced()
    return death.is_dead, last


def check(directory: Path, output_format: str, target: Path | None, finished: int) -> None:
    """Whatever was finished is there; the run goes on, and ends with every row once."""
    stored = open_stored(directory, output_format, target=target)
    assert all(row in stored.done for row in range(1, finished + 1))
    run_session(directory, output_format, ROWS, target=target)
    assert read_rows(directory, output_format, target) == [(row, f"of row {row}") for row in ROWS]
    for table in ("requests", "steps"):
        column = "row" if table == "requests" else "step"
        rows = pq.read_table(directory / f"{table}.parquet")[column].to_pylist()
        assert sorted(rows) == list(ROWS) if table == "requests" else set(rows) <= set(ROWS)
    left = {"requests.parquet", "steps.parquet"}
    results = {"parquet": "results/part-00000.parquet", "jsonl": "results.jsonl", "csv": "results.csv"}[output_format]
    if target is None:
        left.add(results)
    if output_format == "csv":
        left.add("results/part-00000.parquet")
    assert files(directory) == left
    assert files(directory.parent) == {f"run/{name}" for name in left} | ({target.name} if target else set())
    assert open_stored(directory, output_format, target=target).complete


@pytest.mark.parametrize(
    ("output_format", "target"), [("parquet", None), ("jsonl", None), ("csv", None), ("parquet", "a"), ("jsonl", "a")]
)
def test_a_run_may_die_at_any_operation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output_format: str, target: str | None
) -> None:
    commit_at_once(monkeypatch, segment_rows=2)
    died, at = True, (len(output_format) % STRIDE) - STRIDE + 1
    while died:
        at += STRIDE
        folder = tmp_path / str(at)
        directory = folder / "run"
        directory.mkdir(parents=True)
        path = None if target is None else folder / target
        begin(directory, output_format, path)
        died, finished = die(directory, output_format, path, monkeypatch, at)
        _, more = die(directory, output_format, path, monkeypatch, at * 7 % 40 + 1)
        check(directory, output_format, path, max(finished, more))
    assert at > 50
