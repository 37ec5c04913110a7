"""Logit bias and repetition penalties: patches to the few logits concerned. Doesn't know how a token is chosen."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbatch.engine.sequence import Sequence
from cbatch.sampling import SamplingParams


def has_patch(sampling: SamplingParams) -> bool:
    """Whether any logit is changed before the choice."""
    return bool(sampling.logit_bias) or has_penalty(sampling)


def has_penalty(sampling: SamplingParams) -> bool:
    return sampling.repetition_penalty != 1 or sampling.presence_penalty != 0 or sampling.frequency_penalty != 0


class Patch:
    """What one sequence's bias and penalties do to its logits; follows the output as it grows.

    It may be made at any time in the sequence's life: what is already in the output is counted first.
    """

    def __init__(self, seq: Sequence) -> None:
        self._seq = seq
        sampling = seq.request.sampling
        bias: dict[int, float] = {}
        for token, value in sampling.logit_bias:
            bias[token] = bias.get(token, 0.0) + value
        self._bias_ids = np.array(list(bias), dtype=np.int64)
        self._bias = np.array(list(bias.values()), dtype=np.float64)
        self._penalised = has_penalty(sampling)
        prompt = seq.request.prompt if sampling.repetition_penalty != 1 else ()
        seen = np.unique(np.asarray(prompt, dtype=np.int64))
        self._place = {token: i for i, token in enumerate(seen.tolist())}
        self._ids = np.concatenate([seen, np.zeros(64, dtype=np.int64)])
        self._counts = np.zeros(self._ids.size, dtype=np.int64)
        self._num_counted = 0

    def apply(self, row: npt.NDArray[np.float32]) -> None:
        """Change `row`, float32[n_vocab], in place: add the bias, then penalise what the sequence holds so far.

        Repetition over prompt and output divides positive and multiplies other logits (CTRL, Keskar et al. 2019, as
        in Hugging Face and vLLM); presence and frequency are over the output only (as OpenAI defines them).
        """
        if self._bias_ids.size:
            row[self._bias_ids] = row[self._bias_ids] + self._bias
        if self._penalised:
            self._count_new_output()
            self._penalise(row)

    def _count_new_output(self) -> None:
        output = self._seq.output
        for token in output[self._num_counted :]:
            place = self._place.setdefault(token, len(self._place))
            if place == self._ids.size:
                self._ids = np.concatenate([self._ids, np.zeros_like(self._ids)])
                self._counts = np.concatenate([self._counts, np.zeros_like(self._counts)])
            self._ids[place] = token
            self._counts[place] += 1
        self._num_counted = len(output)

    def _penalise(self, row: npt.NDArray[np.float32]) -> None:
        sampling = self._seq.request.sampling
        ids, counts = self._ids[: len(self._place)], self._counts[: len(self._place)]
        logits = row[ids].astype(np.float64)
        repetition = sampling.repetition_penalty
        logits = np.where(logits > 0, logits / repetition, logits * repetition)
        row[ids] = logits - sampling.presence_penalty * (counts > 0) - sampling.frequency_penalty * counts
