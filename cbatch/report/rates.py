"""How much happened in each of the last seconds. Knows nothing of what is counted."""

from __future__ import annotations

from dataclasses import dataclass

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class Rate:
    """An amount per second: tokens, requests."""

    now: float
    """Over the last 5 s."""
    mean: float
    """Since the beginning."""
    history: tuple[float, ...]
    """By second, oldest first, at most 120."""


class PerSecond:
    """Amounts by second, of the last `seconds` seconds; times are ns since the first one, >= 0."""

    def __init__(self, seconds: int = 120) -> None:
        self.total = 0.0
        self._sums = [0.0] * seconds
        self._newest = 0

    def add(self, start_ns: int, end_ns: int, amount: float) -> None:
        """`amount` happened evenly over [start_ns, end_ns): a step may last many seconds."""
        self.total += amount
        end_ns = max(end_ns, start_ns + 1)
        newest = (end_ns - 1) // SECOND
        self._turn(newest)
        per_ns = amount / (end_ns - start_ns)
        for second in range(max(start_ns // SECOND, newest - len(self._sums) + 1), newest + 1):
            begin, end = second * SECOND, (second + 1) * SECOND
            self._sums[second % len(self._sums)] += per_ns * (min(end_ns, end) - max(start_ns, begin))

    def history(self, until_ns: int) -> tuple[float, ...]:
        """The amounts of the whole seconds before `until_ns`, oldest first."""
        end = until_ns // SECOND
        return tuple(self._at(second) for second in range(max(0, end - len(self._sums)), end))

    def rate(self, until_ns: int, window: int = 5) -> float:
        """Per second, over the last `window` whole seconds before `until_ns` (fewer at the start)."""
        end = until_ns // SECOND
        if end == 0:
            return self._at(0) * SECOND / until_ns if until_ns > 0 else 0.0
        begin = max(0, end - window)
        return sum(self._at(second) for second in range(begin, end)) / (end - begin)

    def summary(self, until_ns: int) -> Rate:
        """The figures at `until_ns`."""
        if until_ns <= 0:
            return Rate(0.0, 0.0, ())
        return Rate(self.rate(until_ns), self.total * SECOND / until_ns, self.history(until_ns))

    def _at(self, second: int) -> float:
        if not self._newest - len(self._sums) < second <= self._newest:
            return 0.0
        return self._sums[second % len(self._sums)]

    def _turn(self, newest: int) -> None:
        """Make `newest` the newest second, emptying those in between."""
        for second in range(max(self._newest + 1, newest - len(self._sums) + 1), newest + 1):
            self._sums[second % len(self._sums)] = 0.0
        self._newest = max(self._newest, newest)
