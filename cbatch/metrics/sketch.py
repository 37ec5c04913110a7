"""The distribution of any number of values in bounded memory. Knows no metric by name."""

from __future__ import annotations

import math
from array import array
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from cbatch.metrics.percentiles import PERCENTILES, Distribution, values_needed

EXACT = 100_000
"""Up to so many values, percentiles are exact."""
RELATIVE_ERROR = 0.0005
"""Of percentiles of more values, at most."""

_GROWTH = (1 + RELATIVE_ERROR) / (1 - RELATIVE_ERROR)
_BUCKETS = 2 + math.floor(63 * math.log(2) / math.log(_GROWTH))
"""As many as there are up to 2**63 ns, and one for what is below 1."""


class Sketch:
    """Non-negative values below 2**63, most of them told by their size alone. Takes 1.3 MB at most.

    The first `EXACT` values are kept; from then on each is counted in a bucket, whose borders grow by a constant
    factor, so that its middle is within `RELATIVE_ERROR` of all that is in it (DDSketch: Masson, Rim and Lee,
    VLDB 2019). Values below 1 count as 0. Count and mean stay exact.
    """

    def __init__(self) -> None:
        self._kept = array("d")
        self._counts: npt.NDArray[np.int64] | None = None
        """By bucket, of those that are kept no more."""
        self._sum = 0.0
        """Of the same."""

    def add(self, value: float) -> None:
        self._kept.append(value)
        if len(self._kept) > EXACT:
            self._counts, self._sum = self._folded()
            del self._kept[:]

    def _folded(self) -> tuple[npt.NDArray[np.int64], float]:
        """Counts and sum of all values."""
        kept = np.array(self._kept)
        counts = np.bincount(_buckets(kept), minlength=_BUCKETS)
        if self._counts is not None:
            counts += self._counts
        return counts, self._sum + float(kept.sum())

    def distribution(self, percentiles: Sequence[float] = PERCENTILES) -> Distribution:
        """Of all values so far. Percentiles interpolate linearly, as those of `Distribution.of` do."""
        if self._counts is None:
            return Distribution.of(self._kept, percentiles)
        counts, total = self._folded()
        below = np.cumsum(counts)
        size = int(below[-1])
        told = {p: _percentile(below, (size - 1) * p / 100) for p in percentiles if size >= values_needed(p)}
        return Distribution(size, total / size, tuple((float(p), told.get(p)) for p in percentiles))


def _buckets(values: npt.NDArray[np.float64]) -> npt.NDArray[np.int64]:
    """Bucket n > 0 holds what is from `_GROWTH` ** (n - 1) on and below the next one's."""
    inside = 1 + np.log(np.maximum(values, 1)) / math.log(_GROWTH)
    return np.where(values < 1, 0, inside).astype(np.int64)


def _percentile(below: npt.NDArray[np.int64], rank: float) -> float:
    """The value at a rank that may lie between two, by how many values each bucket and those before it hold."""
    low, high = (_middle(int(np.searchsorted(below, end(rank), side="right"))) for end in (math.floor, math.ceil))
    return low + (high - low) * (rank % 1)


def _middle(bucket: int) -> float:
    """As far from the lower border as from the upper one, in proportion."""
    return 0.0 if bucket == 0 else 2 * math.pow(_GROWTH, bucket) / (_GROWTH + 1)
