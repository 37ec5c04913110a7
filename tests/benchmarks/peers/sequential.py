"""The loop that people write with llama-cpp-python: one prompt after the other, keeping the prefix they share."""

from __future__ import annotations

import time
from itertools import islice
from pathlib import Path

from cbatch.llama import machine
from tests.benchmarks.peers.jobs import BenchJob
from tests.benchmarks.peers.measured import Measured


def measure(path: Path, job: BenchJob) -> Measured:
    from llama_cpp import Llama

    llama = Llama(str(path), n_ctx=job.cells, n_threads=machine.default_threads(), verbose=False)
    next(llama.generate([1], temp=0.0))  # the first decode is slower
    tokens = 0
    start = time.perf_counter()
    for row in job.rows:
        tokens += sum(1 for _ in islice(llama.generate(row.prompt, temp=0.0), row.output))
    seconds = time.perf_counter() - start
    llama.close()
    return Measured(seconds, tokens)
