"""Priorities and how often each is drawn. Knows no request."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbatch.errors import UsageError
from cbatch.traces.check import MAX_TOKENS


@dataclass(frozen=True, slots=True)
class PriorityMix:
    """Each priority with a weight; the chance of one is its weight by the sum of all."""

    weights: tuple[tuple[int, float], ...] = ((0, 1.0),)

    def __post_init__(self) -> None:
        values = [priority for priority, _ in self.weights]
        if len(set(values)) < len(values):
            raise UsageError(f"a priority is given twice in {_text(self.weights)}: give each once")
        for priority in values:
            if abs(priority) > MAX_TOKENS:
                raise UsageError(f"a priority is {priority}: give {-MAX_TOKENS} to {MAX_TOKENS}")
        if not all(0 <= weight < math.inf for _, weight in self.weights) or sum(w for _, w in self.weights) <= 0:
            raise UsageError(f"weights are {_text(self.weights)}: give 0 or more for each, not 0 for all")

    def draw(self, rng: np.random.Generator, count: int) -> npt.NDArray[np.int64]:
        """int64[count]; no result depends on how many are drawn at a time."""
        values = np.array([priority for priority, _ in self.weights], np.int64)
        upto = np.cumsum([weight for _, weight in self.weights])
        return values[np.searchsorted(upto / upto[-1], rng.random(count), side="right")]

    def describe(self) -> dict[str, float]:
        """For the manifest: weights by priority."""
        return {str(priority): weight for priority, weight in self.weights}


def _text(weights: Iterable[tuple[int, float]]) -> str:
    return ",".join(f"{priority}:{weight:g}" for priority, weight in weights)
