"""Words that are one token each, so that prompts are the same as token ids and as text. Knows no jobs."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from tests.benchmarks.peers.jobs import Words
from tests.benchmarks.peers.measured import PeerFailed

_WORD = re.compile(rb" [a-z]{2,}")


def words_of(path: Path) -> Words:
    """int32[n], ascending. Raises `PeerFailed` for a model without such words, or with a BOS."""
    with Model(ModelConfig(path)) as model:
        tokenizer = Tokenizer(model)
        if tokenizer.add_bos:
            raise PeerFailed(f"{path.name} begins prompts with a BOS, which not every peer adds: give another model")
        words = [token for token in range(model.n_vocab) if _is_word(tokenizer, token)]
    if not words:
        raise PeerFailed(f"{path.name} has no words that are one token each: give another model")
    return np.array(words, np.int32)


def _is_word(tokenizer: Tokenizer, token: int) -> bool:
    """Whether it reads back as itself, alone and after itself."""
    text = tokenizer.token_bytes(token)
    if _WORD.fullmatch(text) is None:
        return False
    return np.array_equal(tokenizer.tokenize(text.decode() * 2, parse_special=False), [token, token])
