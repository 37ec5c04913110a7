"""llama-batched-bench: llama.cpp's own loop without sampling and without requests, for one shape."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Mapping
from pathlib import Path

from tests.benchmarks.peers.flags import Flags, total_cells
from tests.benchmarks.peers.jobs import BenchJob
from tests.benchmarks.peers.measured import Measured, PeerFailed


def command(program: Path, model: Path, job: BenchJob, flags: Flags) -> list[str]:
    """For as many sequences as slots, each as the job's first row."""
    prompt, output = len(job.rows[0].prompt), job.rows[0].output
    shape = f"-npp {prompt} -ntg {output} -npl {flags.slots} -c {total_cells(flags.slots, job.cells)}"
    return [str(program), "-m", str(model), *shape.split(), *flags.arguments(), "--output-format", "jsonl"]


def measure(program: Path, model: Path, job: BenchJob, flags: Flags, environment: Mapping[str, str]) -> Measured:
    """One round of slots, which is what the job is made of."""
    called = command(program, model, job, flags)
    done = subprocess.run(called, env=environment, capture_output=True, text=True, check=False)
    try:
        return parse(done.stdout + done.stderr)
    except PeerFailed as failure:
        raise PeerFailed(f"{' '.join(called)} ended with {done.returncode}: {failure}") from None


def parse(printed: str) -> Measured:
    """The one line that is JSON; prompts and outputs together are its time. Raises `PeerFailed` without one."""
    for line in printed.splitlines():
        if line.startswith("{"):
            found = json.loads(line)
            return Measured(found["t"], found["pl"] * found["tg"])
    raise PeerFailed(printed[-2000:])
