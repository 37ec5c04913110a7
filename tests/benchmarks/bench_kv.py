"""What shared prefixes and closed gaps are worth, on SmolLM2 through the engine, in interleaved repetitions.

    python -m tests.benchmarks.bench_kv [--repeat 2] [--job P|R ...]

Job P: 64 rows of the same 512 tokens and 32 of their own, 32 output tokens, 32 slots; prefix cache on and off.
       Goals: 4 times as fast, computed prompt tokens within 5% of 512 + 64 x 32, restoring under 3% of the time.
Job R: 96 rows of 32 to 256 tokens, outputs exponential with mean 48 in 8 to 192, 32 slots; gaps closed or left.
       Decode tokens/s from the moment on when nobody waits for a slot. Goal: 1.2 times.
"""

from __future__ import annotations

import argparse
import statistics
from collections.abc import Callable
from contextlib import closing
from functools import partial
from typing import Any, NamedTuple

import numpy as np

from cbatch.clock import WallClock
from cbatch.config import ContextConfig, ModelConfig, SchedulerConfig
from cbatch.engine import Engine
from cbatch.llama import machine
from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sampling import SamplingParams
from cbatch.types import Request, StepRecord

SLOTS = 32
Prompts = list[np.ndarray[Any, Any]]


class Played(NamedTuple):
    """One pass over a job."""

    seconds: float
    steps: list[StepRecord]
    tokens: dict[str, list[int]]

    def total(self, field: str) -> int:
        return sum(getattr(step, field) for step in self.steps)

    @property
    def tail(self) -> list[StepRecord]:
        """Steps that only decode, and nobody waits."""
        return [step for step in self.steps if step.waiting == 0 and step.prefill_tokens == 0 and step.decode_seqs]

    @property
    def tail_tokens_per_s(self) -> float:
        """With the time of moves."""
        return (
            sum(step.decode_seqs for step in self.tail) / sum(step.end_ns - step.start_ns for step in self.tail) * 1e9
        )


def job_p() -> list[Request]:
    rng = np.random.default_rng(0)
    head = rng.integers(1000, 40_000, 512)
    params = SamplingParams(max_tokens=32, ignore_eos=True)
    return [Request(str(i), np.concatenate([head, rng.integers(1000, 40_000, 32)]), params) for i in range(64)]


def job_r() -> list[Request]:
    rng = np.random.default_rng(1)
    made = []
    for i in range(96):
        prompt = rng.integers(1000, 40_000, int(rng.integers(32, 257))).astype(np.int32)
        output = int(np.clip(rng.exponential(48), 8, 192))
        made.append(Request(str(i), prompt, SamplingParams(max_tokens=output, ignore_eos=True)))
    return made


def play(model: Model, requests: list[Request], cells: int, **config: Any) -> Played:
    clock = WallClock()
    cpus = machine.allowed_cpus()
    context = ContextConfig(max_num_seqs=SLOTS, cells_per_seq=cells, cpus=cpus if len(cpus) > 1 else ())
    with closing(LlamaRunner(model, Tokenizer(model), context, clock)) as runner:
        engine = Engine(runner, SchedulerConfig(SLOTS, **config), clock)
        steps: list[StepRecord] = []
        tokens = {}
        start = clock.now_ns()
        for request in requests:
            engine.add(request)
        while engine.has_work:
            tokens.update({output.id: output.token_ids.tolist() for output in engine.step()})
            assert engine.last_step is not None
            steps.append(engine.last_step)
        return Played((clock.now_ns() - start) / 1e9, steps, tokens)


def by_turns(variants: dict[str, Callable[[], Played]], repeat: int) -> dict[str, list[Played]]:
    found: dict[str, list[Played]] = {name: [] for name in variants}
    for turn in range(repeat):
        for name in list(variants)[:: 1 if turn % 2 == 0 else -1]:
            found[name].append(variants[name]())
    return found


def bench_p(model: Model, repeat: int) -> None:
    jobs = {"shared": 1 << 30, "each its own": 0}
    found = by_turns(
        {name: partial(play, model, job_p(), 640, prefix_cache_bytes=size) for name, size in jobs.items()},
        repeat,
    )
    for name, runs in found.items():
        run = runs[0]
        seconds = ", ".join(f"{each.seconds:.1f}" for each in runs)
        share = (run.total("restore_ns") + run.total("save_ns")) / 1e9 / run.seconds
        print(
            f"P  {name:13} {seconds} s  prompt tokens computed {run.total('prefill_tokens'):,}  restoring {share:.2%}"
        )
    ratio = statistics.median(run.seconds for run in found["each its own"]) / statistics.median(
        run.seconds for run in found["shared"]
    )
    same = sum(found["shared"][0].tokens[key] == tokens for key, tokens in found["each its own"][0].tokens.items())
    print(f"P  {ratio:.2f} times as fast; the same output for {same} of 64")


def bench_r(model: Model, repeat: int) -> None:
    found = by_turns(
        {name: partial(play, model, job_r(), 512, compact=on) for name, on in (("closed", True), ("left", False))},
        repeat,
    )
    for name, runs in found.items():
        rates = ", ".join(f"{run.tail_tokens_per_s:.1f}" for run in runs)
        print(
            f"R  gaps {name:7} tail {rates} tokens/s  all {', '.join(f'{run.seconds:.1f}' for run in runs)} s  "
            f"moves {runs[0].total('moved')}  moving {runs[0].total('restore_ns') / 1e6:.0f} ms"
        )
    tails = {name: statistics.median(run.tail_tokens_per_s for run in runs) for name, runs in found.items()}
    print(f"R  tail {tails['closed'] / tails['left']:.2f} times as fast")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--job", choices=("P", "R"), action="append")
    arguments = parser.parse_args()
    with Model(ModelConfig(resolve_model("smollm2"))) as model:
        for job, bench in (("P", bench_p), ("R", bench_r)):
            if job in (arguments.job or ("P", "R")):
                bench(model, arguments.repeat)


if __name__ == "__main__":
    main()
