"""How many greedy outputs are the same tokens whether a row runs alone or beside 31 others, on SmolLM2.

    python -m tests.benchmarks.bench_identity [--requests 64] [--output 48]

Prompts are plain text pieces of the example file. Kernels round differently for different batch shapes, so a near-tie
between two tokens can fall either way; the tiny f32 model of the tests shows that nothing else differs.
"""

from __future__ import annotations

import argparse
import json
from pathlib import Path
from typing import Any

import numpy as np

from cbatch.engine import Engine
from cbatch.llama.local import LocalModel
from cbatch.sampling import SamplingParams
from cbatch.types import Request

_SETTINGS: dict[str, dict[str, Any]] = {
    "bf16 KV, flash attention (default)": {},
    "f16 KV, no flash attention": {"kv_type": "f16", "flash_attn": "off"},
    "f32 KV, no flash attention": {"kv_type": "f32", "flash_attn": "off"},
    "bf16 KV, flash attention, unified": {"kv_mode": "unified"},
}


def texts(count: int) -> list[str]:
    """`count` different prompts: windows of the examples' text."""
    source = Path(__file__).parents[2] / "examples" / "prompts.jsonl"
    rows = [json.loads(line) for line in source.read_text("utf-8").splitlines()]
    prompts = [row if isinstance(row, str) else row.get("prompt") or "" for row in rows]
    words = " ".join(prompts).split()
    rng = np.random.default_rng(0)
    starts = rng.integers(0, len(words) - 80, count)
    return [" ".join(words[start : start + 10 + i % 60]) for i, start in enumerate(starts)]


def answers(slots: int, prompts: list[str], output: int, **context: Any) -> dict[str, list[int]]:
    with LocalModel("smollm2", max_num_seqs=slots, cells_per_seq=512, **context) as model:
        engine = Engine(model.runner)
        requests: list[Request] = [
            model.request(str(i), text, SamplingParams(max_tokens=output)) for i, text in enumerate(prompts)
        ]
        for request in requests:
            engine.add(request)
        return {done.id: done.token_ids.tolist() for done in engine}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--requests", type=int, default=64)
    parser.add_argument("--output", type=int, default=48)
    arguments = parser.parse_args()
    prompts = texts(arguments.requests)
    for name, context in _SETTINGS.items():
        alone = answers(1, prompts, arguments.output, **context)
        beside = answers(32, prompts, arguments.output, **context)
        same = sum(alone[key] == beside[key] for key in alone)
        print(f"{name:40} {same} of {len(alone)} identical", flush=True)


if __name__ == "__main__":
    main()
