"""Cutting candidates by top-k, top-p and min-p, and drawing one. Doesn't know how candidates are found."""

from __future__ import annotations

import math

import numpy as np
import numpy.typing as npt

from cbatch.llama.sampling.candidates import Candidates, Floats, Ints
from cbatch.sampling import SamplingParams

Bools = npt.NDArray[np.bool_]
Knobs = npt.NDArray[np.void]
"""Structured array of `KNOB`, one element a row."""

KNOB = np.dtype(
    [
        ("temperature", np.float64),
        ("k", np.int64),  # the vocabulary's size where top-k is off
        ("top_p", np.float64),
        ("log_min_p", np.float64),  # -inf where min-p is off
        ("u", np.float64),  # the row's random number, in [0, 1)
    ]
)
FAILED = -1
"""In place of a token id: the row's logits hold NaN or +inf, or nothing but -inf."""
UNDECIDED = -2
"""In place of a column or token id: the candidates at hand don't settle it."""

_LOWEST_TEMPERATURE = 1e-6
"""Colder is taken as this: only logits within 1e-4 of the largest could tell, and float32 can hold the quotients."""
ROUNDING = 1e-9
"""Relative; more than two orders of summing 10**6 float64 terms can differ by."""
UNKNOWN = 1e300
"""A bound that isn't known: more than any sum."""


def knob(sampling: SamplingParams, n_vocab: int, u: float) -> tuple[float, int, float, float, float]:
    """One element of `Knobs`."""
    return (
        max(sampling.temperature, _LOWEST_TEMPERATURE),
        min(sampling.top_k, n_vocab) or n_vocab,
        sampling.top_p,
        math.log(sampling.min_p) if sampling.min_p > 0 else -math.inf,
        u,
    )


def without_cuts(knobs: Knobs) -> Bools:
    """bool[rows]: neither top-p nor min-p is on."""
    return np.asarray((knobs["top_p"] >= 1) & (knobs["log_min_p"] == -np.inf))


def draw(candidates: Candidates, knobs: Knobs, partial: Bools, low: Floats, high: Floats) -> Ints:
    """int64[rows]: the column drawn in each row, or `UNDECIDED` where that takes more candidates.

    The cuts are llama.cpp's, in its order: the k likeliest; of these the fewest that have `top_p` of their softmax
    (the token that crosses it is kept); of these the logits of at least max + log(min_p). Then the softmax at
    `temperature` of what is left, summed from the likeliest down, is inverted at `u`. All in float64.

    In `partial` rows the k likeliest go on beyond the candidates. Of such a row `low` and `high` bound the sum of
    exp((logit - max) / T) over all k, T being its temperature where it is `without_cuts`, else 1. A choice stands only
    if both bounds lead to it, so that it is the choice which the whole row would give.
    """
    known = np.minimum(candidates.found, knobs["k"])
    below_max = candidates.logits - candidates.logits[:, :1]
    if (candidates.found > known).any():
        below_max[np.arange(below_max.shape[1]) >= known[:, None]] = -np.inf
    sums = np.cumsum(np.exp(below_max / knobs["temperature"][:, None]), axis=1)
    kept_low, kept_high = _kept(below_max, sums, known, knobs, partial, low, high)
    column = _first_true(sums > (knobs["u"] * kept_low)[:, None])
    decided = column < known
    if (kept_low != kept_high).any():
        decided &= column == _first_true(sums > (knobs["u"] * kept_high)[:, None])
    return np.where(decided, column, UNDECIDED)


def _kept(
    below_max: Floats, sums: Floats, known: Ints, knobs: Knobs, partial: Bools, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """Bounds of what the kept tokens sum up to in `sums`, the running sums at the rows' temperatures."""
    most = known + partial  # known + 1 stands for an end beyond the candidates
    end = most
    if (knobs["log_min_p"] > -np.inf).any():
        end = _first_true(below_max < knobs["log_min_p"][:, None])
        end = np.where(end < known, end, most)
    nucleus = sums
    if (knobs["top_p"] < 1).any() and (knobs["temperature"] != 1).any():
        nucleus = np.cumsum(np.exp(below_max), axis=1)
    rows = np.arange(known.size)
    beyond_low, beyond_high = _kept_beyond(below_max[rows, known - 1], sums[:, -1], nucleus[:, -1], knobs, low, high)
    bounds = []
    for whole, beyond in ((low, beyond_low), (high, beyond_high)):
        share = knobs["top_p"] * np.where(partial, whole, nucleus[:, -1])
        crossing = np.where(knobs["top_p"] < 1, 1 + _first_true(nucleus >= share[:, None]), most)
        kept = np.minimum(end, crossing)
        bounds.append(np.where(kept > known, beyond, sums[rows, np.minimum(kept, known) - 1]))
    return bounds[0], bounds[1]


def _kept_beyond(
    last: Floats, kept: Floats, nucleus: Floats, knobs: Knobs, low: Floats, high: Floats
) -> tuple[Floats, Floats]:
    """The bounds for rows that keep more tokens than are known.

    `last` is a = (logit - max) of the last candidate; `kept` and `nucleus` are the candidates' sums at the row's
    temperature T and at 1. Let m be what the kept tokens after it add at 1: they make up the rest to `top_p` of the
    whole, and the crossing token goes beyond that by at most exp(a). At T < 1 each adds
    exp(a' / T) = exp(a') exp(a' (1 / T - 1)) with a' <= a, so together at most m exp(a (1 / T - 1)). At T > 1 the most
    isn't known; the least is that at 1, unless min-p may end first.
    """
    temperature = knobs["temperature"]
    m_low = np.maximum(0.0, knobs["top_p"] * low - nucleus)
    m_high = np.maximum(0.0, knobs["top_p"] * high - nucleus) + np.exp(last)
    at_least = np.where((temperature >= 1) & (knobs["log_min_p"] == -np.inf), m_low, 0.0)
    at_most = np.where((temperature <= 1) & (high < UNKNOWN), m_high * np.exp(last * (1 / temperature - 1)), UNKNOWN)
    free = without_cuts(knobs)
    return (
        np.where(free, low, (kept + at_least) * (1 - ROUNDING)),
        np.where(free, high, np.minimum((kept + at_most) * (1 + ROUNDING), UNKNOWN)),
    )


def _first_true(flags: Bools) -> Ints:
    """int64[rows]: the first true column; the number of columns where none is. True columns come last in each row."""
    return np.asarray(np.where(flags[:, -1], flags.argmax(axis=1), flags.shape[1]))
