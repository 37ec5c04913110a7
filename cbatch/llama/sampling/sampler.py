"""One token for each row of logits: splits the rows by what their requests ask for. Knows no batches, slots or text."""

from __future__ import annotations

from collections.abc import Iterator
from concurrent.futures import Future, ThreadPoolExecutor

import numpy as np

from cbatch.engine.sequence import Sequence
from cbatch.llama.sampling.candidates import Logits
from cbatch.llama.sampling.chain import sample_row
from cbatch.llama.sampling.draw import FAILED, KNOB, knob
from cbatch.llama.sampling.penalties import Patch, has_patch
from cbatch.llama.sampling.stream import uniform
from cbatch.llama.sampling.vectorised import sample_rows


class Sampler:
    """Chooses tokens; keeps, for sequences with penalties or bias, what they have seen. One thread uses it.

    Rows that need llama.cpp's samplers are shared out to `threads` threads: those let go of Python's lock.
    """

    def __init__(self, n_vocab: int, threads: int = 1) -> None:
        self.n_vocab = n_vocab
        self._pool = ThreadPoolExecutor(threads, "sampler")
        self._patches: dict[Sequence, Patch] = {}

    def sample(self, logits: Logits, seqs: list[Sequence]) -> list[int]:
        """The next token of each sequence, or `FAILED` where its logits hold NaN or +inf, or nothing but -inf.

        `logits` is float32[len(seqs), n_vocab], C-contiguous; rows with bias or penalties are patched in place.
        Temperature 0 and top_k 1 take the largest logit, the lowest id among equals. Everything else is drawn with
        the random number that belongs to the sequence's stream and the token's place in the output, so that a row's
        token doesn't depend on the rows beside it.
        """
        assert logits.shape == (len(seqs), self.n_vocab)
        assert logits.dtype == np.float32
        assert logits.flags.c_contiguous
        tokens = [FAILED] * len(seqs)
        greedy: list[int] = []
        drawn: list[int] = []
        with np.errstate(over="ignore", invalid="ignore"):  # what overflows is never drawn, or its row fails
            for i, seq in enumerate(seqs):
                sampling = seq.request.sampling
                if has_patch(sampling):
                    self._patch(seq).apply(logits[i])
                (greedy if sampling.greedy else drawn).append(i)
            for rows, choose in ((greedy, _largest), (drawn, self._draw)):
                for i, token in choose(logits, seqs, rows) if rows else ():
                    tokens[i] = token
        return tokens

    def forget(self, seq: Sequence) -> None:
        """Free what is kept for a sequence; harmless for one without."""
        self._patches.pop(seq, None)

    def _patch(self, seq: Sequence) -> Patch:
        patch = self._patches.get(seq)
        if patch is None:
            patch = self._patches[seq] = Patch(seq)
        return patch

    def _draw(self, logits: Logits, seqs: list[Sequence], rows: list[int]) -> Iterator[tuple[int, int]]:
        """(row, token) of each of `rows`, in no particular order."""
        chosen = [seqs[i] for i in rows]
        us = uniform([seq.stream_seed for seq in chosen], [seq.num_output for seq in chosen])
        single: dict[int, Future[int]] = {}
        together: list[int] = []
        knobs = []
        for i, seq, u in zip(rows, chosen, us.tolist(), strict=True):
            sampling = seq.request.sampling
            if sampling.typical_p < 1:
                single[i] = self._pool.submit(sample_row, logits[i], sampling, u)
            else:
                together.append(i)
                knobs.append(knob(sampling, self.n_vocab, u))
        if together:
            tokens = sample_rows(logits, together, np.array(knobs, dtype=KNOB))
            yield from zip(together, tokens.tolist(), strict=True)
        for i, token in single.items():
            yield i, token.result()


def _largest(logits: Logits, _: list[Sequence], rows: list[int]) -> Iterator[tuple[int, int]]:
    """(row, token) of each of `rows`."""
    tokens = np.array([logits[i].argmax() for i in rows], dtype=np.int64)
    usable = np.isfinite(logits[rows, tokens])  # a NaN anywhere is argmax's choice
    yield from zip(rows, np.where(usable, tokens, FAILED).tolist(), strict=True)
