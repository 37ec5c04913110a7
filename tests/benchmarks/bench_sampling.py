"""Time per `Sampler.sample` call, for 32 rows. Run on demand: python tests/benchmarks/bench_sampling.py"""

from __future__ import annotations

import time

import numpy as np

from cbatch.engine.sequence import Sequence
from cbatch.llama import machine
from cbatch.llama.sampling import Sampler
from cbatch.sampling import SamplingParams
from cbatch.types import Request

ROWS = 32
CASES = {
    "greedy": SamplingParams(),
    "top-k 40, top-p 0.95, T 0.8": SamplingParams(temperature=0.8, top_k=40, top_p=0.95),
    "top-p 0.95, T 0.8": SamplingParams(temperature=0.8, top_p=0.95),
    "T 0.8": SamplingParams(temperature=0.8),
    "top-k 40, T 0.8, repetition 1.1": SamplingParams(temperature=0.8, top_k=40, repetition_penalty=1.1),
    "typical-p 0.9, T 0.8": SamplingParams(temperature=0.8, typical_p=0.9),
}


def logits_like_a_model(n_vocab: int, rng: np.random.Generator) -> np.ndarray[tuple[int, ...], np.dtype[np.float32]]:
    """float32[ROWS, n_vocab]: Zipf-like with the exponent varying by row.

    At temperature 1 the 1,000 likeliest of 49,152 leave 2% on average, as SmolLM2-135M's do on prose (2.7%).
    """
    log_rank = np.log(np.arange(1, n_vocab + 1))
    rows = [rng.permutation(-exponent * log_rank) for exponent in rng.uniform(1.2, 2.2, ROWS)]
    return np.stack(rows).astype(np.float32)


def fastest_ms(sampling: SamplingParams, n_vocab: int, calls: int = 24) -> tuple[float, float]:
    """Least and mean milliseconds of a call, the positions in the output going on."""
    rng = np.random.default_rng(0)
    prompt = rng.integers(0, n_vocab, 128, dtype=np.int32)
    seqs = [Sequence(Request(str(i), prompt, sampling, stream_seed=i), 0) for i in range(ROWS)]
    sampler = Sampler(n_vocab, machine.default_threads())
    logits = logits_like_a_model(n_vocab, rng)
    times = []
    for _ in range(calls):
        start = time.perf_counter()
        tokens = sampler.sample(logits, seqs)
        times.append(1000 * (time.perf_counter() - start))
        for seq, token in zip(seqs, tokens, strict=True):
            seq.append(token, 0)
    return min(times), sum(times[1:]) / (calls - 1)


if __name__ == "__main__":
    for n_vocab in (49_152, 128_256, 262_144):
        for name, sampling in CASES.items():
            least, mean = fastest_ms(sampling, n_vocab)
            print(f"{ROWS} x {n_vocab:>7,}  {name:<34} {least:7.2f} ms least {mean:7.2f} ms mean")
