"""How sure a ratio between two variants is: 95 % confidence intervals. Knows arrays only, no metric by name.

Two things make a ratio uncertain, and they are estimated apart, both on its logarithm:

- **Which requests** were asked. Paired bootstrap (Efron & Tibshirani 1993, chapter 8): requests are drawn with
  replacement, each with its values under both variants and in all repetitions. The interval is the percentile one:
  BCa takes its acceleration from the jackknife, which fails for medians and other quantiles (ibid., section 10.6).
- **How the machine was** while it ran. Repetitions are few, and drawing from three of them with replacement covers
  far less than 95 %, so this is Student's t interval over the repetitions' log ratios, each of two runs beside each
  other. It has R - 1 degrees of freedom: with three repetitions it is 2.5 standard deviations wide to either side,
  with five 1.2; with one, nothing is known.

The two are put together as the root of their squares (MOVER: Zou & Donner 2008, for sums of independent parts). What
a request's own noise adds is in both, so the interval is rather too wide than too narrow.

Not in it: requests are drawn one by one, though those that arrive together also wait together. Another trace of the
same kind can therefore differ by more than the interval says, above all near saturation.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from cbatch.metrics.percentiles import values_needed

Floats = npt.NDArray[np.float64]

STATISTICS = ("mean", "p50", "p90", "p99")
RESAMPLES = 1000
FEWEST_PAIRS = 10
"""Under these, drawing requests with replacement says little of how much they differ."""
CONFIDENCE = 0.95
CHUNK = 2_000_000
"""Values drawn at a time: 16 MB."""
_PERCENTILES = (50, 90, 99)
_TAILS = (50 * (1 - CONFIDENCE), 50 * (1 + CONFIDENCE))
_FARTHEST = 700.0
"""What a float can be the exponential of."""
_NORMAL = 1.959963985
_STUDENT = (12.706205, 4.302653, 3.182446, 2.776445, 2.570582, 2.446912, 2.364624, 2.306004, 2.262157)
"""97.5 % points of Student's t for 1 to 9 degrees of freedom."""


class Ratio(NamedTuple):
    """Variant / baseline with its 95 % interval; None where it can't be told."""

    ratio: float | None
    """Of the medians over repetitions."""
    low: float | None
    high: float | None
    pairs: int
    """Requests (or for figures of whole runs, repetitions) that both have a value for, in every repetition."""
    dropped: int
    """Those that one of the two has no finite value for."""


def ratios_of_requests(
    baseline: npt.ArrayLike, variant: npt.ArrayLike, *, seed: int = 0, resamples: int = RESAMPLES
) -> dict[str, Ratio]:
    """Ratios of each of `STATISTICS` over requests, float64[requests] or float64[repetitions, requests] of one shape.

    A request with a NaN or an infinity anywhere is dropped from all. p99 is None under 100 pairs. There is no interval
    under 10 pairs, nor where a statistic is 0, in the data or in a resample. With one repetition the interval is of
    the requests alone. 1,000 requests in three repetitions take about 0.4 s.
    """
    base, other = np.atleast_2d(_floats(baseline)), np.atleast_2d(_floats(variant))
    _check_shapes(base, other)
    kept = np.isfinite(base).all(axis=0) & np.isfinite(other).all(axis=0)
    pairs = int(kept.sum())
    counts = (pairs, kept.size - pairs)
    if 0 in (pairs, base.shape[0]):
        return {name: Ratio(None, None, None, *counts) for name in STATISTICS}
    both = np.stack([base[:, kept], other[:, kept]])
    told, drawn = _statistics(both), _resampled(both, seed, resamples)
    found = {name: _ratio(told[i], drawn[i], counts) for i, name in enumerate(STATISTICS)}
    if pairs < values_needed(99):
        found["p99"] = Ratio(None, None, None, *counts)
    return found


def ratio_of_runs(baseline: npt.ArrayLike, variant: npt.ArrayLike) -> Ratio:
    """Ratio of a figure of whole runs, float64[repetitions] each, where the r-th of both ran beside each other.

    A repetition without a finite value in both is dropped. The interval holds run-to-run noise and nothing else: it
    speaks of this trace. It takes two repetitions at least, and figures above 0.
    """
    base, other = _floats(baseline), _floats(variant)
    _check_shapes(base, other)
    kept = np.isfinite(base) & np.isfinite(other)
    pairs = int(kept.sum())
    return _ratio(np.stack([base[kept], other[kept]]), None, (pairs, kept.size - pairs))


def student(degrees: int) -> float:
    """The 97.5 % point of Student's t with `degrees` >= 1 of freedom, to 3 decimals.

    From 10 on by the Cornish-Fisher expansion (Abramowitz & Stegun 26.7.5).
    """
    if degrees <= len(_STUDENT):
        return _STUDENT[degrees - 1]
    z = _NORMAL
    terms = ((z**3 + z) / 4, (5 * z**5 + 16 * z**3 + 3 * z) / 96, (3 * z**7 + 19 * z**5 + 17 * z**3 - 15 * z) / 384)
    return z + sum(term / math.pow(degrees, power) for power, term in enumerate(terms, 1))


def _floats(values: npt.ArrayLike) -> Floats:
    return np.asarray(values, dtype=np.float64)


def _check_shapes(base: Floats, other: Floats) -> None:
    if base.shape != other.shape:
        raise ValueError(f"pairs need one shape: the baseline has {base.shape}, the variant {other.shape}")


def _statistics(values: Floats) -> Floats:
    """float64[..., n] gives float64[4, ...], in the order of `STATISTICS`."""
    percentiles = np.percentile(values, _PERCENTILES, axis=-1)
    return np.concatenate([values.mean(axis=-1)[np.newaxis], percentiles])


def _log_ratios(figures: Floats) -> Floats:
    """float64[..., 2, repetitions] gives float64[..., repetitions]; not finite where a figure is 0."""
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.subtract(np.log(figures[..., 1, :]), np.log(figures[..., 0, :]))


def _resampled(both: Floats, seed: int, resamples: int) -> Floats:
    """Mean log ratio over repetitions of each statistic in each resample of the requests: float64[4, resamples]."""
    draws = _draws(both.shape[-1], both[..., 0].size, seed, resamples)
    found = [_log_ratios(np.moveaxis(_statistics(both[..., drawn]), -1, 1)) for drawn in draws]
    with np.errstate(invalid="ignore"):  # inf - inf, where figures are 0 in either
        means: Floats = np.concatenate(found, axis=1).mean(axis=-1)
    return means


def _draws(count: int, rows: int, seed: int, resamples: int) -> Iterator[npt.NDArray[np.int64]]:
    """Indices of requests, int64[some, count] at a time, so that `rows` values for each fit into a chunk."""
    random = np.random.default_rng(seed)
    size = max(1, CHUNK // (rows * count))
    for start in range(0, resamples, size):
        yield random.integers(0, count, (min(size, resamples - start), count))


def _ratio(figures: Floats, drawn: Floats | None, counts: tuple[int, int]) -> Ratio:
    """Of float64[2, repetitions], with the log ratios of resamples where requests were drawn."""
    base, other = np.median(figures, axis=-1).tolist() if figures.size else (0.0, 0.0)
    if base == 0:
        return Ratio(None, None, None, *counts)
    effects = _log_ratios(figures)
    if not _is_judged(effects, drawn, counts[0]):
        return Ratio(other / base, None, None, *counts)
    low, high = _interval(effects, drawn)
    return Ratio(other / base, min(other / base, low), max(other / base, high), *counts)


def _is_judged(effects: Floats, drawn: Floats | None, pairs: int) -> bool:
    """Whether there is enough for an interval."""
    if drawn is None:
        return pairs >= 2 and bool(np.isfinite(effects).all())
    return pairs >= FEWEST_PAIRS and bool(np.isfinite(effects).all() and np.isfinite(drawn).all())


def _interval(effects: Floats, drawn: Floats | None) -> tuple[float, float]:
    """Around the mean log ratio; the ratio of medians, which is shown, may lie outside, and is let in by the caller."""
    centre, noise = float(effects.mean()), _run_noise(effects)
    tails = (centre, centre) if drawn is None else np.percentile(drawn, _TAILS).tolist()
    low, high = (math.hypot(noise, max(0.0, reach)) for reach in (centre - tails[0], tails[1] - centre))
    return math.exp(max(centre - low, -_FARTHEST)), math.exp(min(centre + high, _FARTHEST))


def _run_noise(effects: Floats) -> float:
    """Half of Student's interval of the mean; 0 for one repetition, which says nothing of it."""
    if effects.size < 2:
        return 0.0
    return student(effects.size - 1) * float(effects.std(ddof=1)) / math.sqrt(effects.size)
