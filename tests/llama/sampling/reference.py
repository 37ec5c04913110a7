"""Sampling by the book, one row at a time in float64: what the fast paths must agree with."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cbatch.sampling import SamplingParams

MASK = 2**64 - 1


def splitmix64(seed: int, count: int) -> list[int]:
    """The first outputs of Vigna's splitmix64.c, on Python's integers."""
    state, outputs = seed & MASK, []
    for _ in range(count):
        state = (state + 0x9E3779B97F4A7C15) & MASK
        z = state
        z = ((z ^ (z >> 30)) * 0xBF58476D1CE4E5B9) & MASK
        z = ((z ^ (z >> 27)) * 0x94D049BB133111EB) & MASK
        outputs.append(z ^ (z >> 31))
    return outputs


def uniform(seed: int, position: int) -> float:
    return (splitmix64(seed, position + 1)[-1] >> 11) / 2**53


def patched(
    row: npt.NDArray[np.float32], sampling: SamplingParams, prompt: list[int], output: list[int]
) -> npt.NDArray[np.float32]:
    """Bias and penalties, token by token over the whole vocabulary; rounded to float32 after each of the two."""
    out = np.array(row)
    for token, bias in sampling.logit_bias:
        out[token] = np.float32(float(out[token]) + bias)
    for token in range(row.size):
        logit = float(out[token])
        if token in prompt or token in output:
            logit = logit / sampling.repetition_penalty if logit > 0 else logit * sampling.repetition_penalty
        if token in output:
            logit -= sampling.presence_penalty
        logit -= sampling.frequency_penalty * output.count(token)
        out[token] = np.float32(logit)
    return out


def by_likelihood(row: npt.NDArray[np.float32]) -> list[int]:
    """Token ids by logit descending, ties by id."""
    return [int(i) for i in np.lexsort((np.arange(row.size), -row.astype(np.float64)))]


def softmax_weights(logits: npt.NDArray[np.float64], temperature: float = 1.0) -> npt.NDArray[np.float64]:
    with np.errstate(under="ignore", over="ignore"):
        return np.asarray(np.exp((logits - logits[0]) / temperature))


def kept(row: npt.NDArray[np.float32], sampling: SamplingParams) -> list[int]:
    """What top_k, top_p and min_p leave, most likely first."""
    ids = by_likelihood(row)
    if sampling.top_k > 0:
        ids = ids[: sampling.top_k]
    if sampling.top_p < 1:
        sums = np.cumsum(softmax_weights(row[ids].astype(np.float64)))
        below = int(np.count_nonzero(sums < sampling.top_p * sums[-1]))
        ids = ids[: below + 1]
    if sampling.min_p > 0:
        least = math.log(sampling.min_p)
        best = float(row[ids[0]])
        ids = [i for i in ids if float(row[i]) - best >= least]
    return ids


def drawn(row: npt.NDArray[np.float32], ids: list[int], temperature: float, u: float) -> int:
    """Invert the distribution over `ids` (most likely first) at `u`."""
    sums = np.cumsum(softmax_weights(row[ids].astype(np.float64), temperature))
    return ids[int(np.count_nonzero(sums <= u * sums[-1]))]


def token(row: npt.NDArray[np.float32], sampling: SamplingParams, u: float) -> int:
    """The token of a patched row."""
    if sampling.greedy:
        return by_likelihood(row)[0]
    return drawn(row, kept(row, sampling), sampling.temperature, u)


def typical(row: npt.NDArray[np.float32], ids: list[int], typical_p: float, slack: float) -> tuple[set[int], set[int]]:
    """What locally typical sampling (Meister et al. 2022) surely keeps of `ids`, and what it may keep.

    `slack` is the rounding allowed to sums of probability and to scores.
    """
    weights = softmax_weights(row[ids].astype(np.float64))
    p = weights / weights.sum()
    information = np.where(p > 0, -np.log(np.maximum(p, 1e-300)), np.inf)
    entropy = float((p * np.where(p > 0, information, 0)).sum())
    score = np.abs(information - entropy)
    sure, possible = set(), set()
    for i, token_id in enumerate(ids):
        # a token is kept while those that come before it have no more than typical_p
        if p[score <= score[i] + slack].sum() - p[i] <= typical_p - slack:
            sure.add(token_id)
        if p[score < score[i] - slack].sum() <= typical_p + slack:
            possible.add(token_id)
    return sure, possible
