"""Runs the `cbatch` command in a process of its own, as a user would."""

from __future__ import annotations

import json
import subprocess
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq

EXAMPLES = Path(__file__).parents[2] / "examples"


@dataclass(frozen=True)
class Ran:
    """A command that has ended."""

    code: int
    out: str
    err: str


def command(*arguments: object) -> list[str]:
    return [sys.executable, "-m", "cbatch", *map(str, arguments)]


def cbatch(*arguments: object, stdin: bytes = b"") -> Ran:
    """Run a command to its end."""
    done = subprocess.run(command(*arguments), input=stdin, capture_output=True, timeout=300, check=False)
    ran = Ran(done.returncode, done.stdout.decode(), done.stderr.decode())
    assert "Traceback" not in ran.err, ran.err
    return ran


def results(directory: Path) -> list[dict[str, Any]]:
    """All rows of the results, by row number."""
    parts = sorted((directory / "results").glob("part-*.parquet"))
    return sorted((row for part in parts for row in pq.read_table(part).to_pylist()), key=lambda row: row["row"])


def table(path: Path) -> list[dict[str, Any]]:
    return list(pq.read_table(path).to_pylist())


def run_json(directory: Path) -> dict[str, Any]:
    record = json.loads((directory / "run.json").read_text("utf-8"))
    assert isinstance(record, dict)
    return record


def await_rows(process: subprocess.Popen[Any], directory: Path) -> None:
    """Until a run has committed its first rows."""
    deadline = time.monotonic() + 60
    while not list(directory.glob("journal/*.wal")):
        assert process.poll() is None, "it ended before"
        assert time.monotonic() < deadline, "it commits nothing"
        time.sleep(0.05)


def write_rows(path: Path, rows: list[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), "utf-8")
    return path
