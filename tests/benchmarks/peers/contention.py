"""How much of the machine others used meanwhile: a measurement beside them says little. Linux."""

from __future__ import annotations

import resource
import time
from typing import NamedTuple

import psutil


class CpuTime(NamedTuple):
    """Seconds since some moment, of all CPUs."""

    wall: float
    busy: float
    """Of the whole machine."""
    own: float
    """Of this process and its children that have ended."""

    @classmethod
    def now(cls) -> CpuTime:
        times = psutil.cpu_times()
        usages = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
        return cls(
            time.monotonic(),
            sum(times) - times.idle - times.iowait,
            sum(usage.ru_utime + usage.ru_stime for usage in usages),
        )

    def foreign_since(self, before: CpuTime) -> float:
        """CPUs that others kept busy, on average."""
        used = (self.busy - before.busy) - (self.own - before.own)
        return max(0.0, used / (self.wall - before.wall))
