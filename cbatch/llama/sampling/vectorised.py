"""Sampling many rows at once with top-k, top-p, min-p and temperature. Knows no requests and no history.

A sorted softmax over the vocabulary is avoided: some hundred best tokens are sorted, the rest is only summed, in
float32 with a bound of its error. Where the bounds leave the choice open, the row is done again with more tokens, at
last with all of them.
"""

from __future__ import annotations

import numpy as np

from cbatch.llama.sampling.candidates import Candidates, Floats, Ints, Logits, largest
from cbatch.llama.sampling.draw import FAILED, ROUNDING, UNDECIDED, UNKNOWN, Bools, Knobs, draw, without_cuts

_NARROW = 256
"""Up to this top-k, rows are done together at the largest k among them."""
_WIDTHS = (512, 2048, 8192)
"""How many candidates are tried in turn where top-k is off or large, before all of them."""
_TAIL_ERROR = 1e-5
"""Relative error bound of a float32 sum of exponentials, for up to 10**6 terms.

Rounding of an exponent a is at most 1.8e-7 |a|, and terms beyond |a| = 40 don't count beside the maximum's 1; exp is
good to 2.5e-7, pairwise summation to 2e-6.
"""
_TAIL_FLOOR = 1e-11
"""Absolute; more than all terms with |a| > 40 together."""


def sample_rows(logits: Logits, rows: list[int], knobs: Knobs) -> Ints:
    """int64[len(rows)]: a token id for each of `rows` of `logits` (float32[n, n_vocab], C-contiguous), or `FAILED`.

    A row's token depends on its logits and its element of `knobs` only.
    """
    tokens = np.full(len(rows), FAILED, dtype=np.int64)
    narrow = knobs["k"] <= _NARROW
    for group, widths in ((narrow, ()), (~narrow, _WIDTHS)):
        if group.any():
            chosen = [rows[i] for i in np.flatnonzero(group)]
            tokens[group] = _sample_group(logits, chosen, knobs[group], (*widths, int(knobs["k"][group].max())))
    return tokens


def _sample_group(logits: Logits, rows: list[int], knobs: Knobs, widths: tuple[int, ...]) -> Ints:
    """Tries the widths in turn; the last, at least the largest k, decides every row."""
    tokens = np.full(len(rows), UNDECIDED, dtype=np.int64)
    low, high = np.zeros(len(rows)), np.zeros(len(rows))
    for width in widths:
        left = np.flatnonzero(tokens == UNDECIDED)
        if left.size == 0:
            break
        rows_left, knobs_left = [rows[i] for i in left], knobs[left]
        candidates = largest(logits, rows_left, min(width, logits.shape[1]))
        partial = (candidates.found >= width) & (candidates.found < knobs_left["k"])
        if width == widths[0]:  # the bounds hold whatever the candidates are
            low, high = _bounds(logits, rows, candidates, knobs, partial)
        columns = draw(candidates, knobs_left, partial, low[left], high[left])
        tokens[left] = _ids(candidates, columns)
    return tokens


def _ids(candidates: Candidates, columns: Ints) -> Ints:
    drawn = candidates.ids[np.arange(columns.size), np.maximum(columns, 0)]
    drawn = np.where(columns == UNDECIDED, UNDECIDED, drawn)
    return np.where(candidates.found == 0, FAILED, drawn)


def _bounds(
    logits: Logits, rows: list[int], candidates: Candidates, knobs: Knobs, partial: Bools
) -> tuple[Floats, Floats]:
    """Bounds of the `partial` rows' sums of weights as `draw` wants them: candidates in float64 and all others."""
    n_vocab = logits.shape[1]
    low, high = np.zeros(len(rows)), np.full(len(rows), UNKNOWN)
    temperatures = np.where(without_cuts(knobs), knobs["temperature"], 1.0)
    scratch = np.empty(n_vocab, dtype=np.float32)
    for i in np.flatnonzero(partial & (without_cuts(knobs) | (knobs["top_p"] < 1))):
        ids, known = candidates.ids[i, : candidates.found[i]], candidates.logits[i, : candidates.found[i]]
        head = float(np.exp((known - known[0]) / temperatures[i]).sum())
        tail = _sum_without(logits[rows[i]], ids, known[0], temperatures[i], scratch)
        high[i] = (head + tail * (1 + _TAIL_ERROR) + _TAIL_FLOOR) * (1 + ROUNDING)
        certain = tail * (1 - _TAIL_ERROR) - _TAIL_FLOOR if knobs["k"][i] == n_vocab else 0.0
        low[i] = (head + max(0.0, certain)) * (1 - ROUNDING)
    return low, high


def _sum_without(row: Logits, ids: Ints, peak: float, temperature: float, scratch: Logits) -> float:
    """Sum of exp((logit - peak) / temperature) over all ids but `ids`, in float32."""
    np.subtract(row, np.float32(peak), out=scratch)
    if temperature != 1:
        np.divide(scratch, np.float32(temperature), out=scratch)
    np.exp(scratch, out=scratch)
    scratch[ids] = 0
    return float(scratch.sum())
