"""cbatch beside what else answers a batch of prompts with llama.cpp, on this machine, in interleaved repetitions.

    python -m tests.benchmarks.bench_peers [--jobs U R P] [--repeat 3] [--llama-server PATH] [--slots 8 16 32]
        [--batched-bench PATH] [--same-library] [--only PEER ...] [--rows N] [--model smollm2] [-o ratios.parquet]

Jobs (tests/benchmarks/peers/jobs.py): U 64 x 128+64 tokens, R 96 ragged rows, P 64 rows of 512 shared tokens. All get
the same token ids, greedy, and end tokens don't end a row. The model is loaded and warm when the clock starts, but for
`cbatch run`, which is the whole command on a file, from process start to process end. What isn't there is left out.

A ratio is cbatch's output tokens/s / the peer's, in the same repetition. Goals, by job U, R and P:

    llama-server, defaults, best of its slots     1.55  1.45  2.5
    llama-server, cbatch's flags                  1.1   1.2   2.5
    the loop over llama_cpp.Llama                 2.1   1.6   1.6
    llama-batched-bench                           0.95
    time in llama_decode of `cbatch run`          0.97, sampled 0.94

llama-server and llama-batched-bench build from the sources in the sdist of llama-cpp-python. With --same-library they
load the libraries of the llama-cpp-python that is installed, which has to be of the same version: the same kernels.
"""

from __future__ import annotations

import argparse
import signal
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TypeVar

from cbatch.llama import machine
from cbatch.llama.locate import resolve_model
from tests.benchmarks.peers.contention import CpuTime
from tests.benchmarks.peers.entrants import Entrant, Programs, entrants
from tests.benchmarks.peers.jobs import JOBS, BenchJob, make_jobs
from tests.benchmarks.peers.measured import PeerFailed, isolated
from tests.benchmarks.peers.results import FOREIGN_CPUS, REFERENCE, Result, Results
from tests.benchmarks.peers.vocabulary import words_of

T = TypeVar("T")

_WARM_UP_ROWS, _WARM_UP_OUTPUT = 2, 4


def rotated(items: Sequence[T], turn: int, turns: int) -> list[T]:
    """`items` from another place on in each turn, so that over all turns each is measured early and late."""
    shift = turn * len(items) // turns
    return [*items[shift:], *items[:shift]]


def compare(job: BenchJob, entered: Sequence[Entrant], repeat: int, results: Results) -> None:
    """Measure everyone `repeat` times, after a warm-up on a few rows."""
    print(f"{job.name}: {len(job.rows)} rows, {job.output_tokens:,} output tokens", flush=True)
    for entrant in entered:
        entrant.measure(job.first(_WARM_UP_ROWS, _WARM_UP_OUTPUT))
    for turn in range(repeat):
        for entrant in rotated(entered, turn, repeat):
            before = CpuTime.now()
            measured = entrant.measure(job)
            foreign = CpuTime.now().foreign_since(before)
            results.add(Result(job.name, entrant.peer, entrant.flags, turn, measured, foreign))
            told = f"{entrant.peer}, {entrant.flags}: {measured.tokens_per_s:.1f} output tok/s"
            beside = f" beside {foreign:.2f} CPUs of other work" if foreign > FOREIGN_CPUS else ""
            print(f"  {job.name} {turn + 1}/{repeat}  {told}{beside}", file=sys.stderr, flush=True)
    print("\n".join(results.table(job.name)), flush=True)


def parse_arguments() -> argparse.Namespace:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--jobs", nargs="+", choices=JOBS, default=list(JOBS))
    parser.add_argument("--repeat", type=int, default=3)
    parser.add_argument("--llama-server", type=Path)
    parser.add_argument("--slots", type=int, nargs="+", default=[8, 16, 32], help="of llama-server at its defaults")
    parser.add_argument("--batched-bench", type=Path)
    parser.add_argument("--same-library", action="store_true")
    parser.add_argument("--only", nargs="+", metavar="PEER", help="beside cbatch; such as llama-server")
    parser.add_argument("--rows", type=int, help="at most so many of each job, for a try")
    parser.add_argument("--model", default="smollm2")
    parser.add_argument("-o", "--output", type=Path)
    return parser.parse_args()


def main() -> None:
    given = parse_arguments()
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that servers are ended, too
    model = resolve_model(given.model)
    programs = Programs(model, given.llama_server, tuple(given.slots), given.batched_bench, given.same_library)
    print(f"{machine.cpu_name()}, {machine.default_threads()} threads, {model.stem}, {machine.library_version()}")
    results = Results()
    for job in make_jobs(given.jobs, isolated(words_of, model), given.rows):
        entered = entrants(programs, job)
        if given.only is not None:
            entered = [entrant for entrant in entered if entrant.peer in (REFERENCE, *given.only)]
        try:
            compare(job, entered, given.repeat, results)
        except PeerFailed as failure:
            sys.exit(f"bench_peers: {failure}")
        finally:
            if given.output is not None:
                results.write(given.output)


if __name__ == "__main__":
    main()
