"""Other programs on the CPUs, by counters that are told."""

from __future__ import annotations

from types import SimpleNamespace
from typing import NamedTuple

import psutil
import pytest

from cbatch.llama import machine
from cbatch.tune.company import Company


class Times(NamedTuple):
    user: float
    idle: float
    iowait: float


def test_what_we_use_ourselves_and_cpus_of_others_dont_count(monkeypatch: pytest.MonkeyPatch) -> None:
    now, own = 0.0, 0.0
    others = {0: 0.0, 1: 0.0, 2: 0.0}

    def per_cpu(*, percpu: bool) -> list[Times]:
        assert percpu
        return [Times(busy + own / 2, 1000 + now - busy - own / 2, 7.0) for busy in others.values()]

    monkeypatch.setattr(machine, "allowed_cpus", lambda: (0, 1))
    monkeypatch.setattr(psutil, "cpu_times", per_cpu)
    monkeypatch.setattr(
        psutil, "Process", lambda: SimpleNamespace(cpu_times=lambda: SimpleNamespace(user=own, system=0))
    )
    found = Company()
    now, own = 10.0, 16.0
    assert found.cpus == 0
    others |= {0: 3.0, 2: 9.0}
    assert found.cpus == pytest.approx(0.3)


def test_of_this_machine() -> None:
    found = Company()
    sum(range(10**6))
    assert 0 <= found.cpus <= (psutil.cpu_count() or 1)
