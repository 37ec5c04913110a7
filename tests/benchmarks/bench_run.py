"""How much of the wall time is llama.cpp's own, and what batching is worth against the plain sequential loop.

    python -m tests.benchmarks.bench_run [--requests 64] [--repeat 2] [--quick]

64 requests of 128 + 64 forced tokens over 32 slots, on SmolLM2, in one process and interleaved repetitions:

- greedy, and with temperature 0.8, top-k 40, top-p 0.95 on every row: output tokens/s and share of wall time inside
  llama_decode (goals 0.97 and 0.95);
- the same requests one after another through `llama_cpp.Llama.generate`, with as many threads (goal: 2.0 times);
- scheduler time per step at 64 running sequences, on the fake runner (goal: under 0.2 ms).
"""

from __future__ import annotations

import argparse
import statistics
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from cbatch.clock import WallClock
from cbatch.config import ContextConfig, ModelConfig, SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.llama import machine
from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sampling import SamplingParams
from cbatch.types import Request, StepRecord

PROMPT, OUTPUT, SLOTS = 128, 64, 32
SAMPLED = {"temperature": 0.8, "top_k": 40, "top_p": 0.95}


class Measured(NamedTuple):
    """One pass over the requests."""

    tokens_per_s: float
    llama_share: float
    decode_ms: float
    """Median decode call with every slot busy; NaN where there was none."""


def prompts(count: int, n_vocab: int) -> list[np.ndarray[Any, np.dtype[np.int32]]]:
    rng = np.random.default_rng(0)
    return [rng.integers(10, n_vocab - 10, PROMPT).astype(np.int32) for _ in range(count)]


def batched(model: Model, count: int, **sampling: Any) -> Measured:
    """All requests through the engine."""
    clock = WallClock()
    context = ContextConfig(max_num_seqs=SLOTS, cells_per_seq=PROMPT + OUTPUT)
    runner = LlamaRunner(model, Tokenizer(model), context, clock)
    engine = Engine(runner, SchedulerConfig(max_num_seqs=SLOTS), clock)
    params = SamplingParams(max_tokens=OUTPUT, **sampling)
    steps: list[StepRecord] = []
    start = clock.now_ns()
    for i, prompt in enumerate(prompts(count, model.n_vocab)):
        engine.add(Request(str(i), prompt, params, stream_seed=i))
    while engine.has_work:
        engine.step()
        assert engine.last_step is not None
        steps.append(engine.last_step)
    wall = clock.now_ns() - start
    runner.close()
    full = [step.decode_call_ns / 1e6 for step in steps if step.decode_seqs == SLOTS]
    return Measured(
        count * OUTPUT / wall * 1e9,
        sum(step.llama_ns for step in steps) / wall,
        statistics.median(full) if full else float("nan"),
    )


def sequential(path: str, count: int, n_vocab: int) -> Measured:
    """The same requests in a loop over llama-cpp-python's own class."""
    from llama_cpp import Llama

    llama = Llama(path, n_ctx=PROMPT + OUTPUT, n_threads=machine.default_threads(), verbose=False)
    next(llama.generate([1], temp=0.0))  # the first decode is slower
    start = time.perf_counter()
    for prompt in prompts(count, n_vocab):
        tokens = llama.generate(prompt.tolist(), temp=0.0)
        for _ in range(OUTPUT):
            next(tokens)
    wall = time.perf_counter() - start
    llama.close()
    return Measured(count * OUTPUT / wall, float("nan"), float("nan"))


def scheduler_ms(sequences: int = 64, steps: int = 200) -> float:
    """Median scheduler time of a step while `sequences` decode."""
    runner = FakeRunner(max_num_seqs=sequences)
    engine = Engine(runner, SchedulerConfig(max_num_seqs=sequences), WallClock())
    for i in range(sequences):
        engine.add(Request(str(i), np.ones(8, np.int32), SamplingParams(max_tokens=steps)))
    times = []
    while engine.has_work:
        engine.step()
        if engine.last_step is not None and engine.last_step.decode_seqs == sequences:
            times.append(engine.last_step.schedule_ns / 1e6)
    return statistics.median(times)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--repeat", type=int, default=2)
    parser.add_argument("--quick", action="store_true", help="16 requests, once")
    arguments = parser.parse_args()
    count, repeat = (16, 1) if arguments.quick else (arguments.requests, arguments.repeat)
    path = resolve_model("smollm2")
    with Model(ModelConfig(path)) as model:
        variants: dict[str, Callable[[], Measured]] = {
            "cbatch, greedy": lambda: batched(model, count),
            "cbatch, sampled": lambda: batched(model, count, **SAMPLED),
            "sequential": lambda: sequential(str(path), count, model.n_vocab),
        }
        found: dict[str, list[Measured]] = {name: [] for name in variants}
        for _ in range(repeat):
            for name, variant in variants.items():
                found[name].append(variant())
    print(f"{machine.cpu_name()}, {machine.default_threads()} threads, {count} requests of {PROMPT}+{OUTPUT} tokens")
    for name, passes in found.items():
        rates = ", ".join(f"{measured.tokens_per_s:.1f}" for measured in passes)
        share, decode = (statistics.median(getattr(m, key) for m in passes) for key in ("llama_share", "decode_ms"))
        print(f"{name:16} output tok/s {rates}   in llama_decode {share:.4f}   decode call, full {decode:.1f} ms")
    ratios = [
        b.tokens_per_s / s.tokens_per_s for b, s in zip(found["cbatch, greedy"], found["sequential"], strict=True)
    ]
    print(f"ratio to sequential: {', '.join(f'{ratio:.2f}' for ratio in ratios)}")
    print(f"scheduler time per step, 64 running: {scheduler_ms():.4f} ms")


if __name__ == "__main__":
    main()
