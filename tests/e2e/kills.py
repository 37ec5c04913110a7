"""A job that is killed again and again at random moments, and started again each time.

    python -m tests.e2e.kills --kills 100

`python -m tests.e2e.kills report FILE run ...` is `cbatch run ...` that appends a line to FILE for each row when the
engine is done with it: which one, and when.
"""

from __future__ import annotations

import argparse
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from cbatch.llama.tiny import write_tiny
from cbatch.outputs import RunWriter, open_stored
from cbatch.types import RequestOutput, RowRef
from tests.e2e.command import cbatch, results, write_rows

DURABLE_S = 1.0
"""What may be lost: rows that were finished so short a time before."""


@dataclass
class Kills:
    """What happened."""

    of_parent: int = 0
    of_worker: int = 0
    lost: list[tuple[int, float]] = field(default_factory=list)
    """Rows that had been finished for more than `DURABLE_S` and weren't there: row, seconds."""
    redone: Counter[int] = field(default_factory=Counter)
    """How often each row was finished."""


def kill_again_and_again(folder: Path, model: Path, *, rows: int, kills: int, seed: int, longest_s: float) -> Kills:
    """Kill the job `kills` times, then let it end; its output is in `folder / "out"`."""
    source = write_rows(folder / "rows.jsonl", [{"id": f"r{i}", "prompt": f"Row {i}"} for i in range(rows)])
    arguments = ("run", source, "-m", model, *COMMON, "-o", folder / "out")
    chance, found = random.Random(seed), Kills()
    while found.of_parent + found.of_worker < kills:
        _one_life(folder, arguments, chance, found, longest_s, kills)
    assert _start(folder, arguments).wait(timeout=300) == 0
    found.redone = Counter(row for row, _ in _reports(folder))
    return found


COMMON = ("-t", 1, "-q", "--max-num-seqs", 4, "--max-tokens", 24, "--ignore-eos", "--temperature", 0.7)


def _one_life(
    folder: Path, arguments: Sequence[object], chance: random.Random, found: Kills, longest_s: float, kills: int
) -> None:
    """Of a parent: it ends by being killed, or with its job."""
    born_ns = time.monotonic_ns()
    process = _start(folder, arguments)
    parent = psutil.Process(process.pid)
    while found.of_parent + found.of_worker < kills:
        try:
            process.wait(timeout=chance.uniform(0, longest_s))
        except subprocess.TimeoutExpired:
            at_ns = time.monotonic_ns()
        else:
            break
        workers = parent.children()
        if workers and chance.random() < 0.5:
            workers[0].kill()
            born_ns = time.monotonic_ns()  # not `at_ns`: finding the worker takes a while, in which it goes on
            found.of_worker += 1
            continue
        process.kill()
        process.wait()
        found.of_parent += 1
        psutil.wait_procs(workers, timeout=10)
        _look(folder, born_ns, at_ns, found)
        return
    if process.poll() is None:
        process.kill()
        process.wait()
    else:
        assert process.returncode in (0, -signal.SIGKILL), process.returncode
        if process.returncode == 0:  # done before all kills: begin again
            _again(folder)


def _again(folder: Path) -> None:
    """Another job, with the reports of the one before it forgotten."""
    number = sum(1 for _ in folder.glob("out*"))
    (folder / "out").rename(folder / f"out.done{number}")
    (folder / "report").unlink()


def _look(folder: Path, born_ns: int, killed_ns: int, found: Kills) -> None:
    """Whether everything that a worker had finished, long enough before it was killed, is stored."""
    done = open_stored(folder / "out", "parquet").done if (folder / "out").exists() else ()
    for row, at_ns in _reports(folder):
        before_s = (killed_ns - at_ns) / 1e9
        if at_ns > born_ns and before_s > DURABLE_S and row not in done:
            found.lost.append((row, before_s))


def _start(folder: Path, arguments: Sequence[object]) -> subprocess.Popen[bytes]:
    line = [sys.executable, "-m", "tests.e2e.kills", "report", str(folder / "report"), *map(str, arguments)]
    return subprocess.Popen(line, stdout=subprocess.DEVNULL)


def _reports(folder: Path) -> list[tuple[int, int]]:
    """Row and time of each line that is whole."""
    path = folder / "report"
    lines = path.read_text().splitlines(keepends=True) if path.exists() else []
    return [(int(row), int(ns)) for row, ns in (line.split() for line in lines if line.endswith("\n"))]


def _report(path: str, arguments: list[str]) -> None:
    """Be `cbatch`, reporting."""
    finished = RunWriter.finished
    file = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_APPEND)

    def told(writer: RunWriter, ref: RowRef, output: RequestOutput) -> None:
        finished(writer, ref, output)
        os.write(file, f"{ref.number} {time.monotonic_ns()}\n".encode())

    RunWriter.finished = told  # type: ignore[method-assign, assignment]
    sys.argv = ["cbatch", *arguments]
    from cbatch.cli import main

    main()


def undisturbed(folder: Path, model: Path) -> list[dict[str, Any]]:
    """The results of the same job, never killed."""
    ran = cbatch("run", folder / "rows.jsonl", "-m", model, *COMMON, "-o", folder / "undisturbed")
    assert ran.code == 0, ran.err
    return results(folder / "undisturbed")


def main() -> None:
    """The long form, on demand."""
    if sys.argv[1:2] == ["report"]:
        _report(sys.argv[2], sys.argv[3:])
        return
    parser = argparse.ArgumentParser()
    parser.add_argument("--kills", type=int, default=100)
    parser.add_argument("--rows", type=int, default=300)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--longest", type=float, default=4.0, help="seconds between two kills at most")
    asked = parser.parse_args()
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        model = write_tiny(folder / "tiny.gguf")
        found = kill_again_and_again(
            folder, model, rows=asked.rows, kills=asked.kills, seed=asked.seed, longest_s=asked.longest
        )
        there, expected = results(folder / "out"), undisturbed(folder, model)
        again = sum(count - 1 for count in found.redone.values())
        print(
            f"{found.of_parent} parents and {found.of_worker} workers killed; in the last job {again} rows done again"
        )
        print(f"{len(there)} rows, equal to an undisturbed run: {there == expected}; lost though durable: {found.lost}")
        sys.exit(there != expected or bool(found.lost))


if __name__ == "__main__":
    main()
