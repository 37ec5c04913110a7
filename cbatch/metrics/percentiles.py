"""A distribution, told by its mean and percentiles. Knows no metric by name."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbatch.errors import UsageError

PERCENTILES = (50.0, 90.0, 99.0)


@dataclass(frozen=True, slots=True)
class Distribution:
    """Count, mean and percentiles of a set of nanosecond values; None where there are too few values to say.

    A percentile p above 90 needs 100 / (100 - p) values: with fewer, nothing lies beyond it, and it tells no more than
    the largest value does. p99 needs 100, p99.9 needs 1,000.
    """

    count: int
    """Values, misses included."""
    mean_ns: float | None
    """None where there is no value, or a miss among them."""
    percentiles: tuple[tuple[float, float | None], ...]
    """(p, value in ns) in the order asked for; the value may be +inf (a miss) or None (too few values)."""

    @classmethod
    def of(cls, values: npt.ArrayLike, percentiles: Sequence[float] = PERCENTILES, misses: int = 0) -> Distribution:
        """Of `values`, finite float64[n] in ns, and `misses` more that are +inf: requests that never got there.

        Percentiles interpolate linearly, as `numpy.percentile` does; one that touches +inf is +inf.
        """
        finite = np.asarray(values, dtype=np.float64)
        array = np.concatenate([finite, np.full(misses, np.inf)])
        mean = float(finite.mean()) if finite.size and misses == 0 else None
        shown = [p for p in percentiles if array.size >= values_needed(p)]
        found = dict(zip(shown, _linear(array, shown), strict=True))
        return cls(array.size, mean, tuple((float(p), found.get(p)) for p in percentiles))

    def percentile(self, p: float) -> float | None:
        """The p-th percentile in ns; None where it's hidden or wasn't asked for."""
        return dict(self.percentiles).get(p)

    @property
    def p50_ns(self) -> float | None:
        return self.percentile(50)

    @property
    def p90_ns(self) -> float | None:
        return self.percentile(90)

    @property
    def p99_ns(self) -> float | None:
        return self.percentile(99)

    @property
    def p99_hidden(self) -> str | None:
        """Why p99 was asked for and isn't there; else None."""
        return self._why_hidden([99])

    @property
    def hidden(self) -> str | None:
        """Which percentiles were asked for and aren't there, and why; None where all are."""
        return self._why_hidden([p for p, _ in self.percentiles])

    def _why_hidden(self, percentiles: Sequence[float]) -> str | None:
        """Of those of `percentiles` that were asked for."""
        asked = dict(self.percentiles)
        short = [p for p in percentiles if p in asked and self.count < values_needed(p) > 1]
        if not short:
            return None
        needs = ", ".join(f"{label(p)} needs {values_needed(p):,} values" for p in short)
        return f"{needs}, there are {self.count:,}"

    def to_dict(self) -> dict[str, float | str | None]:
        """JSON-ready, with units in the names: `p50_ns`, `p99.9_ns`; an infinite one is the string `inf`.

        Each percentile above 90 has the reason for which it's hidden beside it, such as `p99_hidden`.
        """
        record: dict[str, float | str | None] = {"count": self.count, "mean_ns": self.mean_ns}
        for p, value in self.percentiles:
            record[f"{label(p)}_ns"] = "inf" if value == math.inf else value
            if values_needed(p) > 1:
                record[f"{label(p)}_hidden"] = self._why_hidden([p])
        return record


def label(p: float) -> str:
    """`p50`, `p99.9`."""
    return f"p{p:.12g}"


def values_needed(p: float) -> int:
    """Values from which on the p-th percentile is told: 1 up to p90, above it 100 / (100 - p), rounded up."""
    return 1 if p <= 90 else math.ceil(round(100 / (100 - p), 6))


def _linear(array: npt.NDArray[np.float64], percentiles: Sequence[float]) -> list[float]:
    """Percentiles of float64[n], which may hold +inf: the value at rank (n - 1) * p / 100, between its neighbours."""
    if not percentiles:
        return []
    ranks = [round((array.size - 1) * p / 100, 9) for p in percentiles]
    ends = [(math.floor(rank), math.ceil(rank)) for rank in ranks]
    placed = np.partition(array, sorted({end for pair in ends for end in pair}))
    pairs = [(float(placed[low]), float(placed[high])) for low, high in ends]
    return [_between(*pair, rank % 1) for pair, rank in zip(pairs, ranks, strict=True)]


def _between(low: float, high: float, share: float) -> float:
    return high if math.isinf(high) else low + (high - low) * share


def parse_percentiles(text: str) -> tuple[float, ...]:
    """`50,90,99.9` as numbers, ascending, each once. Raises `UsageError`."""
    return tuple(sorted({_parse(part.strip()) for part in text.split(",")}))


def _parse(part: str) -> float:
    try:
        p = float(part)
    except ValueError:
        p = math.nan
    if not 0 < p < 100:
        raise UsageError(
            f"--percentiles has {part!r}: give numbers above 0 and below 100, with commas between, such as 50,90,99.9"
        )
    return p
