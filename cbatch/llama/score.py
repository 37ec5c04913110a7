"""How close a decision between two tokens was. Evaluates one sequence at a time, in a context of its own."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from cbatch.config import ContextConfig
from cbatch.engine.runner import Work
from cbatch.engine.sequence import Sequence
from cbatch.errors import EngineError
from cbatch.llama.batch import Batch
from cbatch.llama.context import Context
from cbatch.llama.model import Model
from cbatch.types import Request, Tokens


class Scorer:
    """Compares logits after a prefix. Close it before the model; a context manager."""

    def __init__(self, model: Model, config: ContextConfig, cells: int) -> None:
        """`cells` is the longest prefix, in tokens; of `config` the slots don't matter."""
        self._context = Context(model, replace(config, max_num_seqs=1, cells_per_seq=cells))
        self._batch = Batch(self._context.max_batched_tokens)

    def gap(self, tokens: Tokens, first: int, second: int) -> float:
        """How much larger the logit of `first` is than that of `second` after `tokens` (int32[n], n >= 1).

        Raises `EngineError` where the library can't compute it.
        """
        self._context.clear(0)
        seq = Sequence(Request("score", tokens), 0)
        seq.slot = 0
        for start in range(0, tokens.size, self._batch.capacity):
            work = Work(seq, start, min(self._batch.capacity, tokens.size - start))
            code = self._context.decode(self._batch.fill([work]))
            if code != 0:
                raise EngineError(f"a prefix of {tokens.size} tokens couldn't be evaluated (llama_decode gave {code})")
        logits = self._context.logits(1)[0]
        return float(np.float64(logits[first]) - np.float64(logits[second]))

    def close(self) -> None:
        self._context.close()

    def __enter__(self) -> Scorer:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
