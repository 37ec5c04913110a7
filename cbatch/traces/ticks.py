"""Whether arrivals fall on a coarse grid, so that many come at once. Knows no file."""

from __future__ import annotations

from collections import Counter

MIN_TICK_NS = 100_000_000
"""A finer grid is not felt beside the time of an engine step."""
_MIN_TIMES = 8
"""Distinct times below which a grid may be chance."""
_MAX_GAPS = 10_000
"""Distinct gaps above which there is no grid, which bounds the memory."""
_TOLERANCE = 0.01
"""Of a tick: a grid of 3 s rounded to milliseconds has times like 5.999 s."""


class Ticks:
    """Sees arrivals in file order, and tells their grid from the gaps between them."""

    def __init__(self) -> None:
        self.requests = 0
        self.times = 0
        """Distinct ones, as long as the file is in order."""
        self._last_ns: int | None = None
        self._gaps: Counter[int] | None = Counter()
        """Requests by the gap before them; None once there can't be a coarse grid."""

    def see(self, arrival_ns: int) -> None:
        self.requests += 1
        gap, self._last_ns = (None if self._last_ns is None else abs(arrival_ns - self._last_ns)), arrival_ns
        if gap == 0:
            return
        self.times += 1
        if gap is None or self._gaps is None:
            return
        self._gaps[gap] += 1
        if gap < MIN_TICK_NS or len(self._gaps) > _MAX_GAPS:
            self._gaps = None

    def tick_ns(self) -> float | None:
        """The tick of the grid, or None where there is none, or only one finer than `MIN_TICK_NS`.

        The plain greatest common divisor would be 1 ms where ticks were rounded, so the tick is the mean over all gaps,
        with the smallest as the first guess.
        """
        if self._gaps is None or self.times < _MIN_TIMES:
            return None
        least = min(self._gaps)
        steps = sum(round(gap / least) * count for gap, count in self._gaps.items())
        tick = sum(gap * count for gap, count in self._gaps.items()) / steps
        off = max(abs(gap - round(gap / tick) * tick) for gap in self._gaps)
        return tick if off <= _TOLERANCE * tick else None
