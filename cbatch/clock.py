"""Time, passed in: nothing but a clock reads the time of day.

All times inside cbatch are integer nanoseconds on one monotonic scale.
"""

from __future__ import annotations

import time
from typing import Protocol


class Clock(Protocol):
    """A source of monotonic time in integer nanoseconds."""

    def now_ns(self) -> int:
        """Nanoseconds since an arbitrary origin; never decreases."""
        ...


class WallClock:
    """Real time, counted from the clock's creation or its last restart."""

    def __init__(self) -> None:
        self.restart()

    def restart(self, at_ns: int = 0) -> None:
        """Make now 0, or where an earlier run's time ended. Only while nothing is being timed."""
        self._origin = time.perf_counter_ns() - at_ns

    def now_ns(self) -> int:
        return time.perf_counter_ns() - self._origin


class VirtualClock:
    """Time that passes only when told to, for tests and simulation."""

    def __init__(self, now_ns: int = 0) -> None:
        self._now = now_ns

    def now_ns(self) -> int:
        return self._now

    def advance(self, ns: int) -> None:
        """Let `ns` >= 0 nanoseconds pass."""
        if ns < 0:
            raise ValueError(f"time can't go back: advance({ns})")
        self._now += ns
