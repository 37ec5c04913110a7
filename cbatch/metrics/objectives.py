"""Service level objectives: how fast a request has to be to count. Knows one request at a time."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

from cbatch.errors import UsageError
from cbatch.metrics.request import RequestMetrics, is_completed
from cbatch.types import RequestOutput

NAMES = ("ttft", "tpot", "e2e", "queue")
"""Metrics of a request that may have a limit, without their unit."""


@dataclass(frozen=True, slots=True)
class Objectives:
    """Latency limits of a request, all of which have to hold; without any there is no goodput."""

    limits_ns: Mapping[str, float] = field(default_factory=dict)
    """By name, one of `NAMES`, ns."""

    def met(self, output: RequestOutput) -> bool:
        """Whether the request completed with every limited metric at or under its limit.

        A missing metric misses: with a limit on `tpot` a request of one output token does, as it has no tpot.
        """
        metrics = RequestMetrics.of(output)
        values = ((getattr(metrics, f"{name}_ns"), limit) for name, limit in self.limits_ns.items())
        return is_completed(output) and all(value is not None and value <= limit for value, limit in values)

    def to_dict(self) -> dict[str, float]:
        """JSON-ready: `{"ttft_ns": 5e8}`."""
        return {f"{name}_ns": limit for name, limit in self.limits_ns.items()}


def parse_objectives(texts: Iterable[str]) -> Objectives:
    """Of `ttft:500` (milliseconds) and the like; a text may hold several, with spaces or commas between.

    Raises `UsageError`.
    """
    limits: dict[str, float] = {}
    for part in " ".join(texts).replace(",", " ").split():
        name, limit = _parse(part)
        if name in limits:
            raise UsageError(f"--goodput has two limits for {name}: leave one out")
        limits[name] = limit
    return Objectives(limits)


def _parse(part: str) -> tuple[str, float]:
    name, _, milliseconds = part.partition(":")
    if name not in NAMES:
        raise UsageError(f"--goodput has {part!r}: give {', '.join(NAMES)} with milliseconds, such as ttft:500")
    try:
        limit = float(milliseconds) * 1e6
    except ValueError:
        limit = math.nan
    if not 0 < limit < math.inf:
        raise UsageError(f"--goodput has {part!r}: give milliseconds above 0 after the colon, such as {name}:500")
    return name, limit
