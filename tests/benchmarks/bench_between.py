"""Where the time between two native calls goes, in the whole command: journal, Parquet, dashboard and all.

    python -m tests.benchmarks.bench_between [--sampling] [--repeat 2] [--rows 64] [--model smollm2]

Job U (64 prompts of 128 tokens, 64 out) through `cbatch run` over 32 slots, in a process of its own, with a dashboard
on a terminal that nobody looks at and without, in interleaved repetitions; with --sampling also with temperature 0.8,
top-k 40, top-p 0.95. Figures are from steps.parquet: `in llama_decode` is the share of the time from the first step's
start to the last one's end; then, per step, the native calls and what is between them:

    schedule  planning and updating
    sample    choosing tokens, detokenising, matching stop strings
    rest      of the step: putting calls together, snapshots, books, records
    between   two steps: writer, totals, dashboard's figures, reading what has arrived

Goals: 0.97 in llama_decode, sampled 0.94, with the dashboard.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from contextlib import nullcontext
from pathlib import Path
from typing import NamedTuple

import numpy as np
import pyarrow.parquet as pq

from cbatch.llama import machine
from cbatch.llama.locate import resolve_model
from tests.benchmarks.peers.cbatch_command import SAMPLED, texts_of
from tests.benchmarks.peers.contention import CpuTime
from tests.benchmarks.peers.jobs import BenchJob, make_jobs
from tests.benchmarks.peers.measured import isolated
from tests.benchmarks.peers.vocabulary import words_of
from tests.benchmarks.terminal import terminal

SLOTS = 32
COLUMNS = ("calls", "schedule", "sample", "rest", "between")
"""Parts of a step's time, in order."""


class Measured(NamedTuple):
    """One run of the job."""

    tokens_per_s: float
    """From the first step to the last."""
    share: float
    """Of that time, in llama_decode."""
    parts_us: tuple[float, ...]
    """Means over the steps, `COLUMNS`."""
    decode_ms: float
    """Median decode call with every slot busy."""


def measure(job: BenchJob, texts: Sequence[str], model: Path, arguments: Sequence[str], *, dashboard: bool) -> Measured:
    with tempfile.TemporaryDirectory(prefix="cbatch-between-") as folder:
        prompts, output = Path(folder, "prompts.jsonl"), Path(folder, "out")
        rows = zip(texts, job.rows, strict=True)
        prompts.write_text("".join(f"{json.dumps({'prompt': t, 'max_tokens': row.output})}\n" for t, row in rows))
        given = [prompts, "-o", output, "--model", model, "--raw", "--ignore-eos", "--max-num-seqs", SLOTS, *arguments]
        with terminal() if dashboard else nullcontext(subprocess.DEVNULL) as stderr:
            subprocess.run(
                [sys.executable, "-m", "cbatch", "run", *map(str, given)],
                env={**os.environ, "TERM": "xterm-256color", "PYTHONUTF8": "1"},
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=stderr,
                check=True,
            )
        return figures(output / "steps.parquet")


def figures(path: Path) -> Measured:
    """Of a run's table of steps."""
    table = pq.read_table(path)
    columns = {name: table[name].to_numpy().astype(np.float64) for name in table.column_names}
    spans, calls = columns["end_ns"] - columns["start_ns"], columns["llama_ns"]
    wall = columns["end_ns"][-1] - columns["start_ns"][0]
    known = calls + columns["schedule_ns"] + columns["sample_ns"]
    parts = (calls, columns["schedule_ns"], columns["sample_ns"], spans - known, wall / spans.size - spans)
    full = columns["decode_seqs"] == columns["slots_total"]
    return Measured(
        tokens_per_s=columns["output_tokens"].sum() / wall * 1e9,
        share=calls.sum() / wall,
        parts_us=tuple(float(part.mean()) / 1e3 for part in parts),
        decode_ms=statistics.median(columns["decode_call_ns"][full] / 1e6) if full.any() else float("nan"),
    )


def show(name: str, passes: Sequence[Measured]) -> None:
    rates = ", ".join(f"{measured.tokens_per_s:.1f}" for measured in passes)
    share = statistics.median(measured.share for measured in passes)
    decode = statistics.median(measured.decode_ms for measured in passes)
    parts = (statistics.median(values) for values in zip(*(measured.parts_us for measured in passes), strict=True))
    cells = "".join(f"{part:>10,.0f}" for part in parts)
    print(f"{name:22}{rates:>20}{share:>16.4f}{decode:>12.1f}{cells}")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sampling", action="store_true")
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--rows", type=int, help="at most so many, for a try")
    parser.add_argument("--model", default="smollm2")
    arguments = parser.parse_args()
    model = resolve_model(arguments.model)
    (job,) = make_jobs(["U"], isolated(words_of, model), arguments.rows)
    texts = isolated(texts_of, model, job)
    kinds: dict[str, Sequence[str]] = {"greedy": (), **({"sampled": SAMPLED} if arguments.sampling else {})}
    variants: dict[str, tuple[Sequence[str], bool]] = {}
    for kind, flags in kinds.items():
        variants |= {f"{kind}, dashboard": (flags, True), f"{kind}, no dashboard": (flags, False)}
    found: dict[str, list[Measured]] = {name: [] for name in variants}
    before = CpuTime.now()
    for _ in range(arguments.repeat):
        for name, (flags, dashboard) in variants.items():
            found[name].append(measure(job, texts, model, flags, dashboard=dashboard))
    company = CpuTime.now().foreign_since(before)
    print(f"{machine.cpu_name()}, {machine.default_threads()} threads, {len(job.rows)} rows", end="")
    print(f", beside {company:.2f} CPUs of other work")
    heads = "".join(f"{column:>10}" for column in COLUMNS)
    print(f"{'':22}{'output tok/s':>20}{'in llama_decode':>16}{'decode, ms':>12}{heads}  us a step")
    for name, passes in found.items():
        show(name, passes)


if __name__ == "__main__":
    main()
