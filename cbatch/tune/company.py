"""How much of the CPUs other programs use meanwhile: what is measured beside them holds for no quiet machine."""

from __future__ import annotations

from typing import NamedTuple

import psutil

from cbatch.llama import machine


class _CpuTime(NamedTuple):
    """Seconds of the CPUs that this process may use, since some moment."""

    wall: float
    busy: float
    own: float

    @classmethod
    def now(cls) -> _CpuTime:
        allowed = machine.allowed_cpus()
        found = psutil.cpu_times(percpu=True)
        ours = [times for number, times in enumerate(found) if not allowed or number in allowed]
        idle = sum(times.idle + getattr(times, "iowait", 0.0) for times in ours)
        total = sum(sum(times) for times in ours)
        own = psutil.Process().cpu_times()
        return cls(total / len(ours), total - idle, own.user + own.system)


class Company:
    """Of the CPUs that this process may use, since this was made."""

    def __init__(self) -> None:
        self._before = _CpuTime.now()

    @property
    def cpus(self) -> float:
        """That others kept busy, in the mean; time that a hypervisor gave to other machines counts too."""
        wall, busy, own = (now - before for now, before in zip(_CpuTime.now(), self._before, strict=True))
        return max(0.0, busy - own) / wall if wall > 0 else 0.0
