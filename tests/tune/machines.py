"""Made-up machines: settings whose speeds are known, with noise and drift."""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from cbatch.errors import UsageError
from cbatch.tune.mix import Mix, Speeds
from cbatch.tune.setting import Setting

MIX = Mix((100, 128, 156), 64.0, 160)
BF16, F16 = Setting("bf16", "on"), Setting("f16", "on")


class Machine:
    """Trials of settings: `factors` says how much slower a step is than 50 ms; a prompt token takes 0.7 ms."""

    def __init__(
        self, factors: Mapping[Setting, float], *, noise: float = 0.0, drift: float = 1.0, refuses: str | None = None
    ) -> None:
        self._factors = factors
        self._noise = noise
        self._drift = drift
        self._refuses = refuses
        self._rng = np.random.default_rng(0)
        self.tried: list[Setting] = []

    def trial(self, setting: Setting) -> Speeds:
        if setting.kv_type == self._refuses:
            raise UsageError("this model can't")
        self.tried.append(setting)
        slower = self._factors[setting] * self._drift ** len(self.tried) * (1 + self._noise * self._rng.normal())
        return Speeds(7e5 * slower, 5e7 * slower, 32)
