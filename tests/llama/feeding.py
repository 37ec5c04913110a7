"""Short ways to put tokens into a context's slots, one call at a time."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import numpy.typing as npt

from cbatch.config import ContextConfig
from cbatch.llama.context import Context
from cbatch.llama.lib import C
from cbatch.llama.model import Model

Tokens = npt.NDArray[np.int32]
Logits = npt.NDArray[np.float32]


@contextmanager
def context(model: Model, **options: Any) -> Iterator[Context]:
    """Four slots of 512 cells, f32 without flash attention, one thread, ubatches of 64, unless `options` say else."""
    given = {"max_num_seqs": 4, "cells_per_seq": 512, "ubatch": 64, "threads": 1, "kv_type": "f32", "flash_attn": "off"}
    made = Context(model, ContextConfig(**{**given, **options}))
    try:
        yield made
    finally:
        made.close()


def text(count: int, seed: int = 0) -> Tokens:
    """Random tokens."""
    return np.random.default_rng(seed).integers(0, 256, count).astype(np.int32)


def decode(made: Context, *parts: tuple[int, int, Tokens]) -> int:
    """One call with (slot, first position, tokens) of each part; returns its code. Logits after each part's last."""
    total = sum(len(tokens) for _, _, tokens in parts)
    batch = C.llama_batch_init(total, 0, 1)
    places = [(slot, start + i, token) for slot, start, tokens in parts for i, token in enumerate(tokens.tolist())]
    ends = np.cumsum([len(tokens) for _, _, tokens in parts]) - 1
    for i, (slot, position, token) in enumerate(places):
        batch.token[i], batch.pos[i], batch.n_seq_id[i], batch.logits[i] = token, position, 1, i in ends
        batch.seq_id[i][0] = slot
    batch.n_tokens = total
    code = made.decode(batch)
    C.llama_batch_free(batch)
    return code


def feed(made: Context, *parts: tuple[int, int, Tokens]) -> Logits:
    """As `decode`; returns the logits, a row for each part."""
    assert decode(made, *parts) == 0
    return np.array(made.logits(len(parts)))


def prefill(made: Context, slot: int, tokens: Tokens, *, start: int = 0, chunk: int = 64) -> Logits:
    """Compute the tokens, at most `chunk` a call; returns the logits after the last."""
    for i in range(0, len(tokens), chunk):
        logits = feed(made, (slot, start + i, tokens[i : i + chunk]))
    return np.array(logits[0])


def follow(made: Context, slot: int, tokens: Tokens, *, start: int) -> Logits:
    """Compute the tokens one a call; returns the logits after each."""
    return np.array([feed(made, (slot, start + i, tokens[i : i + 1]))[0] for i in range(len(tokens))])


def greedy(made: Context, slot: int, first: int, count: int, *, start: int) -> list[int]:
    """Continue from the token `first` at `start`."""
    tokens = [first]
    for i in range(count):
        tokens.append(int(feed(made, (slot, start + i, np.array(tokens[-1:], np.int32)))[0].argmax()))
    return tokens
