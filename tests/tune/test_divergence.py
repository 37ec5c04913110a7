"""How far types of KV choose different tokens."""

from __future__ import annotations

from contextlib import closing

import numpy as np

from cbatch.clock import WallClock
from cbatch.config import ContextConfig
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.tune.divergence import TEXT, Choices, choices, divergence


def chosen(model: Model, kv_type: str) -> Choices:
    tokenizer = Tokenizer(model)
    config = ContextConfig(max_num_seqs=2, cells_per_seq=256, threads=1, kv_type=kv_type, flash_attn="on")
    with closing(LlamaRunner(model, tokenizer, config, WallClock())) as runner:
        return choices(runner, [tokenizer.tokenize(TEXT, parse_special=False), np.arange(40, dtype=np.int32)])


def test_the_same_type_chooses_the_same_and_a_close_one_nearly(tiny: Model) -> None:
    exact = chosen(tiny, "f32")
    assert exact.size == 127 + 39
    assert divergence(exact, chosen(tiny, "f32")) == 0
    assert divergence(exact, chosen(tiny, "f16")) < 0.05


def test_share_of_places() -> None:
    assert divergence(np.array([1, 2, 3, 4], np.int32), np.array([1, 9, 3, 9], np.int32)) == 0.5
