"""Short ways to run requests on a real context."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np

from cbatch.clock import WallClock
from cbatch.config import ContextConfig, SchedulerConfig
from cbatch.engine import Engine
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sampling import SamplingParams
from cbatch.types import Request, RequestOutput


@contextmanager
def llama_engine(model: Model, *, max_cells: int = 0, **options: Any) -> Iterator[tuple[Engine, LlamaRunner]]:
    """An engine on a context of `model`: options of `ContextConfig`, or of `SchedulerConfig` in `scheduler`.

    One thread by default.
    """
    chunk, more = options.pop("prefill_chunk", None), options.pop("scheduler", {})
    clock = WallClock()
    config = ContextConfig(**{"max_num_seqs": 4, "cells_per_seq": 256, "threads": 1, **options})
    runner = LlamaRunner(model, Tokenizer(model), config, clock, max_cells=max_cells)
    try:
        scheduler = {
            "max_num_seqs": config.max_num_seqs,
            "max_num_batched_tokens": config.max_num_batched_tokens,
            "prefill_chunk": chunk,
            "share_cells": False,
            **more,
        }
        yield Engine(runner, SchedulerConfig(**scheduler), clock), runner
    finally:
        runner.close()


def answer(engine: Engine, requests: Iterable[Request]) -> dict[str, RequestOutput]:
    """Run the requests to their end, checking integrity after each step."""
    for request in requests:
        engine.add(request)
    outputs = {}
    while engine.has_work:
        for output in engine.step():
            outputs[output.id] = output
        engine.check_integrity()
    return outputs


def prompts(
    count: int, *, vocab: int, shortest: int = 3, longest: int = 90, seed: int = 0
) -> list[np.ndarray[Any, Any]]:
    """Random prompts of mixed lengths."""
    rng = np.random.default_rng(seed)
    return [rng.integers(0, vocab, rng.integers(shortest, longest + 1)).astype(np.int32) for _ in range(count)]


def requests(count: int, *, max_tokens: int = 12, vocab: int = 256, **sampling: Any) -> list[Request]:
    """Requests with random prompts, ids `0`, `1`, ..., each with a random stream of its own."""
    return [
        Request(str(i), prompt, SamplingParams(max_tokens=max_tokens, **sampling), stream_seed=i)
        for i, prompt in enumerate(prompts(count, vocab=vocab))
    ]
