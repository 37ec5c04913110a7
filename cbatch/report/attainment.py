"""How many requests met their objectives so far. Knows one request at a time, and no display."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass, field

from cbatch.metrics.objectives import Objectives
from cbatch.types import RequestOutput

RECENT = 100
"""Requests that the recent share is of."""


@dataclass(frozen=True, slots=True)
class Attainment:
    """Of one objective, or of all together."""

    name: str
    """`ttft 500 ms`, or `all`."""
    ended: int
    """Requests that ended, well or not: one that failed misses."""
    share: float | None
    """Of them, those that met it; None before the first."""
    recent: float | None
    """As `share`, of the last 100."""


@dataclass(slots=True)
class _Count:
    name: str
    objectives: Objectives
    ended: int = 0
    met: int = 0
    last: deque[bool] = field(default_factory=lambda: deque(maxlen=RECENT))

    def add(self, output: RequestOutput | None) -> None:
        met = output is not None and self.objectives.met(output)
        self.ended += 1
        self.met += met
        self.last.append(met)

    def attainment(self) -> Attainment:
        recent = sum(self.last) / len(self.last) if self.last else None
        return Attainment(self.name, self.ended, self.met / self.ended if self.ended else None, recent)


class AttainmentCounter:
    """Counts all objectives together and, where there are several, each for itself. Without any it counts nothing."""

    def __init__(self, objectives: Objectives) -> None:
        limits = objectives.limits_ns
        each = [_Count(f"{name} {limit / 1e6:g} ms", Objectives({name: limit})) for name, limit in limits.items()]
        self._counts = [_Count("all", objectives), *each] if len(each) > 1 else each

    def add(self, output: RequestOutput | None) -> None:
        """A request that ended; None is one that couldn't be run at all."""
        for count in self._counts:
            count.add(output)

    def attainments(self) -> tuple[Attainment, ...]:
        """All together first, then each."""
        return tuple(count.attainment() for count in self._counts)
