"""What binding compute threads to CPUs (`--cpu-mask auto`) is worth while other programs use the machine.

    python -m tests.benchmarks.bench_contention [--repeat 2]

32 requests of 128 + 6 tokens on SmolLM2 with a thread for each CPU, with 0, 1, ... busy processes beside them; prints
output tokens/s of full decode calls and prefill tokens/s, not bound and bound, interleaved.
"""

from __future__ import annotations

import argparse
import statistics
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager

import numpy as np

from cbatch.engine import Engine
from cbatch.llama import machine
from cbatch.llama.local import LocalModel
from cbatch.sampling import SamplingParams
from cbatch.types import Request, StepRecord

SLOTS, PROMPT, OUTPUT = 32, 128, 6
_BUSY = "import time\nend = time.monotonic() + 600\nwhile time.monotonic() < end: pass"


@contextmanager
def busy(count: int) -> Iterator[None]:
    """`count` processes that use all the time they get, for ten minutes at most."""
    processes = [subprocess.Popen([sys.executable, "-c", _BUSY]) for _ in range(count)]
    try:
        yield
    finally:
        for process in processes:
            process.kill()
            process.wait()


def speeds(cpus: tuple[int, ...], threads: int) -> tuple[float, float]:
    """(prefill, decode) tokens/s of one pass."""
    rng = np.random.default_rng(0)
    with LocalModel("smollm2", max_num_seqs=SLOTS, cells_per_seq=256, cpus=cpus, threads=threads) as model:
        engine = Engine(model.runner)
        for i in range(SLOTS):
            prompt = rng.integers(10, 40_000, PROMPT).astype(np.int32)
            engine.add(Request(str(i), prompt, SamplingParams(max_tokens=OUTPUT)))
        steps: list[StepRecord] = []
        while engine.has_work:
            engine.step()
            assert engine.last_step is not None
            steps.append(engine.last_step)
    prefill_ns = sum(step.prefill_call_ns for step in steps)
    decode_ns = statistics.median(step.decode_call_ns for step in steps if step.decode_seqs == SLOTS)
    return SLOTS * PROMPT / prefill_ns * 1e9, SLOTS / decode_ns * 1e9


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=2)
    arguments = parser.parse_args()
    cpus = machine.allowed_cpus()
    print(f"{machine.cpu_name()}, {len(cpus)} threads")
    for count in range(len(cpus) + 1):
        with busy(count):
            for _ in range(arguments.repeat):
                free, bound = _in_child((), len(cpus)), _in_child(cpus, len(cpus))
                print(
                    f"{count} busy  not bound: prefill {free[0]:.0f}, decode {free[1]:.0f}   "
                    f"bound: prefill {bound[0]:.0f}, decode {bound[1]:.0f}",
                    flush=True,
                )


def _in_child(cpus: tuple[int, ...], threads: int) -> tuple[float, float]:
    """A pass in a process of its own: binding outlives the context on the calling thread."""
    code = f"from tests.benchmarks.bench_contention import speeds; print(*speeds({cpus}, {threads}))"
    out = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout
    prefill, decode = map(float, out.split())
    return prefill, decode


if __name__ == "__main__":
    main()
