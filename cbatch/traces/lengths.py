"""Distributions of prompt and output lengths, in tokens. Knows nothing of arrivals.

Bounds truncate: a value beyond them is drawn again, never moved onto the bound, where lengths would pile up.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

import numpy as np
import numpy.typing as npt

from cbatch.errors import UsageError
from cbatch.traces.check import MAX_TOKENS
from cbatch.traces.formats.containers import name_of

Lengths = npt.NDArray[np.int64]
MIN_ACCEPTED = 0.01
"""Share of draws that must lie within the bounds: with less, little of the distribution is left to draw."""


class LengthDistribution(Protocol):
    """Where lengths come from. No result depends on how many are drawn at a time."""

    def draw(self, rng: np.random.Generator, count: int) -> Lengths:
        """int64[count], rounded to whole tokens: 0 where less than half a token was drawn."""
        ...

    def describe(self) -> dict[str, Any]:
        """For the manifest."""
        ...


@dataclass(frozen=True, slots=True)
class Fixed:
    """Always the same length."""

    tokens: int

    def __post_init__(self) -> None:
        _check_range(self.tokens, self.tokens)

    def draw(self, rng: np.random.Generator, count: int) -> Lengths:  # noqa: ARG002
        return np.full(count, self.tokens, np.int64)

    def describe(self) -> dict[str, Any]:
        return {"kind": "fixed", "tokens": self.tokens}


@dataclass(frozen=True, slots=True)
class Uniform:
    """Each whole number from `low` to `high`, both included, equally often."""

    low: int
    high: int

    def __post_init__(self) -> None:
        _check_range(self.low, self.high)

    def draw(self, rng: np.random.Generator, count: int) -> Lengths:
        return rng.integers(self.low, self.high, count, endpoint=True)

    def describe(self) -> dict[str, Any]:
        return {"kind": "uniform", "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class LogNormal:
    """e to the power of a normal of mean ln(mean) - sigma**2/2 and standard deviation sigma, within [low, high].

    So `mean` is that of the lengths themselves, before the bounds cut some off.
    """

    mean: float
    sigma: float
    low: int | None = None
    high: int | None = None

    def __post_init__(self) -> None:
        _check_positive("MEAN", self.mean)
        _check_positive("SIGMA", self.sigma)
        _check_range(1 if self.low is None else self.low, MAX_TOKENS if self.high is None else self.high)
        low, high = self._bounds
        _check_accepted(self._below(high) - self._below(low), low, high)

    @property
    def _bounds(self) -> tuple[int, int]:
        return (0 if self.low is None else self.low, MAX_TOKENS if self.high is None else self.high)

    @property
    def _mu(self) -> float:
        return math.log(self.mean) - self.sigma**2 / 2

    def _below(self, tokens: int) -> float:
        """The share of lengths below `tokens`, before truncation: the normal distribution function of its log."""
        if tokens == 0:
            return 0.0
        return 0.5 * math.erfc((self._mu - math.log(tokens)) / (self.sigma * math.sqrt(2)))

    def draw(self, rng: np.random.Generator, count: int) -> Lengths:
        return _truncated(lambda n: rng.lognormal(self._mu, self.sigma, n), *self._bounds, count)

    def describe(self) -> dict[str, Any]:
        return {"kind": "lognormal", "mean": self.mean, "sigma": self.sigma, "low": self.low, "high": self.high}


@dataclass(frozen=True, slots=True)
class Exponential:
    """Of mean `mean` before truncation at `high`; the outputs of Anyscale's continuous-batching study."""

    mean: float
    high: int | None = None

    def __post_init__(self) -> None:
        _check_positive("MEAN", self.mean)
        _check_range(1, self._bound)
        _check_accepted(-math.expm1(-self._bound / self.mean), 0, self._bound)

    @property
    def _bound(self) -> int:
        return MAX_TOKENS if self.high is None else self.high

    def draw(self, rng: np.random.Generator, count: int) -> Lengths:
        return _truncated(lambda n: rng.standard_exponential(n) * self.mean, 0, self._bound, count)

    def describe(self) -> dict[str, Any]:
        return {"kind": "exponential", "mean": self.mean, "high": self.high}


@dataclass(frozen=True, slots=True, eq=False)
class Empirical:
    """Lengths of another trace, drawn uniformly with replacement."""

    path: Path
    """The trace, for the manifest and to tell whether two come from the same."""
    lengths: Lengths
    """int64[n], n >= 1, in the trace's order."""

    def draw(self, rng: np.random.Generator, count: int) -> Lengths:
        return self.lengths[rng.integers(0, self.lengths.size, count)]

    def describe(self) -> dict[str, Any]:
        return {"kind": "empirical", "file": name_of(self.path)}

    def paired_with(self, other: LengthDistribution) -> bool:
        """Whether row i of both is the same request, so that equal random numbers draw from the joint distribution."""
        return isinstance(other, Empirical) and self.path == other.path and self.lengths.size == other.lengths.size


def _truncated(draw: Callable[[int], npt.NDArray[np.float64]], low: int, high: int, count: int) -> Lengths:
    """The next `count` drawn values within [low, high]; draws only as far as the last of them, so chunks don't show."""
    kept = np.empty(0)
    while kept.size < count:
        values = draw(count - kept.size)
        kept = np.concatenate((kept, values[(values >= low) & (values <= high)]))
    return np.rint(kept).astype(np.int64)


def _check_positive(name: str, value: float) -> None:
    if not 0 < value < math.inf:
        raise UsageError(f"{name} is {value:g}: give a number above 0")


def _check_range(low: int, high: int) -> None:
    for value in (low, high):
        if not 1 <= value <= MAX_TOKENS:
            raise UsageError(f"a length of {value} tokens: give 1 to {MAX_TOKENS}")
    if low > high:
        raise UsageError(f"the shortest length, {low}, is above the longest, {high}: swap them")


def _check_accepted(share: float, low: int, high: int) -> None:
    if share < MIN_ACCEPTED:
        raise UsageError(
            f"only {share:.2g} of the distribution lies in {low} to {high}, where at least {MIN_ACCEPTED:g} must: "
            "give wider bounds, or a mean within them"
        )
