"""Arrival processes: when requests come. Knows nothing of what they ask for.

Gaps are never clipped, nor rescaled to hit the rate: both would destroy the process.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from itertools import count, repeat
from typing import Any

import numpy as np

from cbatch.errors import UsageError
from cbatch.traces.trace import SECOND

KINDS = ("poisson", "gamma", "constant", "burst")
MIN_RATE, MAX_RATE = 1e-6, 1e9
"""Above, gaps are below a nanosecond; far below, times leave 64 bits."""
MIN_BURSTINESS = 1e-3
"""Below, most gamma gaps are smaller than the smallest float64."""
CHUNK = 4096
"""Gaps drawn at a time; no result depends on it."""


@dataclass(frozen=True, slots=True)
class ArrivalProcess:
    """One of `KINDS`.

    `poisson`: exponential gaps of mean 1/rate. `gamma`: gamma gaps of shape `burstiness` and scale
    1/(rate*burstiness), so of the same mean, with coefficient of variation 1/sqrt(burstiness); 1 is Poisson, less is
    burstier, as vLLM's `--burstiness`. Both begin with a gap. `constant`: request k, from 0, at k/rate. `burst`: all
    at 0.
    """

    kind: str
    rate: float | None = None
    """Requests per second; None for `burst`."""
    burstiness: float | None = None
    """For `gamma` only."""

    def __post_init__(self) -> None:
        if self.kind not in KINDS:
            raise UsageError(f"--arrival is {self.kind!r}: give one of {', '.join(KINDS)}")
        self._check_rate()
        self._check_burstiness()

    def _check_rate(self) -> None:
        if self.kind == "burst":
            if self.rate is not None:
                raise UsageError(
                    f"--request-rate is {self.rate:g}, but --arrival burst sends all requests at once: "
                    "leave the rate out, or give another --arrival"
                )
        elif self.rate is None:
            raise UsageError(f"--arrival {self.kind} needs --request-rate, in requests per second")
        elif not MIN_RATE <= self.rate <= MAX_RATE:
            raise UsageError(
                f"--request-rate is {self.rate:g}: give {MIN_RATE:g} to {MAX_RATE:g} requests per second, "
                "or --arrival burst for all at once"
            )

    def _check_burstiness(self) -> None:
        if self.kind != "gamma":
            if self.burstiness is not None:
                raise UsageError(
                    f"--burstiness is {self.burstiness:g}, but --arrival is {self.kind}: "
                    "leave it out, or give --arrival gamma"
                )
        elif self.burstiness is None:
            raise UsageError("--arrival gamma needs --burstiness: below 1 is burstier than Poisson, above is smoother")
        elif not MIN_BURSTINESS <= self.burstiness < math.inf:
            raise UsageError(f"--burstiness is {self.burstiness:g}: give {MIN_BURSTINESS:g} or more; 1 is Poisson")

    def arrivals(self, rng: np.random.Generator) -> Iterator[int]:
        """Arrival times without end, ns from 0, ascending.

        Each gap is rounded to a nanosecond and summed as an integer, so long traces don't drift.
        """
        if self.rate is None:
            yield from repeat(0)
        elif self.kind == "constant":
            yield from (round(k * SECOND / self.rate) for k in count())
        else:
            now = 0
            for gap in self._gaps(rng, SECOND / self.rate):
                now += round(gap)
                yield now

    def _gaps(self, rng: np.random.Generator, mean_ns: float) -> Iterator[float]:
        shape = 1.0 if self.burstiness is None else self.burstiness
        while True:
            gaps = rng.standard_exponential(CHUNK) if self.kind == "poisson" else rng.standard_gamma(shape, CHUNK)
            yield from (gaps * (mean_ns / shape)).tolist()

    def describe(self) -> dict[str, Any]:
        """For the manifest."""
        return {"kind": self.kind, "request_rate": self.rate, "burstiness": self.burstiness}
