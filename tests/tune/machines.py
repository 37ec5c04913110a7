"""Made-up machines: settings whose speeds are known, with noise and drift, or all that steps cost in virtual time."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass

import numpy as np

from cbatch.clock import VirtualClock
from cbatch.config import ContextConfig
from cbatch.engine import Runner
from cbatch.errors import UsageError
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sim.costs import StepCostModel
from cbatch.sim.runner import SimulatedRunner
from cbatch.tune.mix import Mix, Speeds
from cbatch.tune.setting import Setting
from cbatch.tune.workbench import Workbench

MIX = Mix((100, 128, 156), 64.0, 160)
BF16, F16 = Setting("bf16", "on"), Setting("f16", "on")


class Machine:
    """Trials of settings: `factors` says how much slower a step is than 50 ms; a prompt token takes 0.7 ms.

    `hiccups`: the share of prompts and of steps that take half as long again.
    """

    def __init__(
        self,
        factors: Mapping[Setting, float],
        *,
        noise: float = 0.0,
        drift: float = 1.0,
        hiccups: float = 0.0,
        refuses: str | None = None,
        seed: int = 0,
    ) -> None:
        self._factors = factors
        self._noise = noise
        self._drift = drift
        self._refuses = refuses
        self._hiccups = hiccups
        self._rng = np.random.default_rng(seed)
        self.tried: list[Setting] = []

    def trial(self, setting: Setting) -> Speeds:
        if setting.kv_type == self._refuses:
            raise UsageError("this model can't")
        self.tried.append(setting)
        slower = self._factors[setting] * self._drift ** len(self.tried) * (1 + self._noise * self._rng.normal())
        prompt, step = (1.5 if self._rng.random() < self._hiccups else 1.0 for _ in range(2))
        return Speeds(7e5 * slower * prompt, 5e7 * slower * step, 32)


def costs(factor: float = 1.0, *, most: float = 2.4e8) -> StepCostModel:
    """Of a small model on a CPU: decoding 32 at once takes 40 ms, 256 prompt tokens `most`; `factor` slows all down."""
    return StepCostModel(
        knots=(0, 1, 8, 32, 64, 256),
        weights_ns=tuple(factor * ns for ns in (5e6, 1e7, 2e7, 4e7, 7.8e7, most)),
        single_ns=factor * 500,
        thin_ns=factor * 500,
        thick_ns=factor * 200,
        step_ns=2e5,
        sampled_ns=1e4,
        restore_ns=1e3,
        save_ns=1e3,
    )


@dataclass(frozen=True, kw_only=True)
class SimulatedWorkbench(Workbench):
    """Contexts whose costs are known: of each setting, or of all others. Making one takes a tenth of a second."""

    time: VirtualClock
    costs_of: Mapping[Setting, StepCostModel]
    other: StepCostModel

    @contextmanager
    def runner(self, setting: Setting, slots: int, cells: int) -> Iterator[Runner]:
        context = self.context(setting, slots, cells)
        self.time.advance(100_000_000)
        yield SimulatedRunner(self.costs_of.get(setting, self.other), context, clock=self.time)

    @classmethod
    def of(cls, model: Model, costs_of: Mapping[Setting, StepCostModel], other: StepCostModel) -> SimulatedWorkbench:
        clock = VirtualClock()
        return cls(
            model,
            Tokenizer(model),
            ContextConfig(),
            lambda context: context,
            clock,
            time=clock,
            costs_of=costs_of,
            other=other,
        )
