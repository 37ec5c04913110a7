"""Measured steps, as the cost model is fitted to them. Knows no files."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import NamedTuple

from cbatch.sim.costs import StepCostModel
from cbatch.sim.ubatches import Ubatch


class MeasuredCall(NamedTuple):
    """A native call, or several that were timed together."""

    ubatches: tuple[Ubatch, ...]
    ns: int


@dataclass(frozen=True, slots=True)
class MeasuredStep:
    """One step: what was computed, and where its time went, ns. Lone calls that something timed are a step too."""

    calls: tuple[MeasuredCall, ...]
    running: int = 0
    sampled: int = 0
    """Tokens chosen."""
    sample_ns: int = 0
    overhead_ns: int = 0
    """Outside of calls, sampling and snapshots, up to the beginning of the next step where that follows at once."""
    restored_tokens: int = 0
    restore_ns: int = 0
    saved_tokens: int = 0
    save_ns: int = 0

    @property
    def calls_ns(self) -> int:
        return sum(call.ns for call in self.calls)

    @property
    def total_ns(self) -> int:
        return self.calls_ns + self.sample_ns + self.overhead_ns + self.restore_ns + self.save_ns

    def predicted_ns(self, costs: StepCostModel) -> float:
        """What the whole step would take by the model."""
        return (
            sum(costs.call_ns(call.ubatches) for call in self.calls)
            + costs.sample_ns(self.sampled)
            + costs.overhead_ns(self.running)
            + self.restored_tokens * costs.restore_ns
            + self.saved_tokens * costs.save_ns
        )


class Deviation(NamedTuple):
    """How far a model is from measured steps, as shares of what was measured."""

    steps: int
    mean: float
    """Of |predicted - measured| / measured over steps."""
    p90: float
    total: float
    """Of the time of all steps together, predicted / measured - 1."""


def deviation_of(costs: StepCostModel, steps: Sequence[MeasuredStep]) -> Deviation:
    """Over one step at least, each of which took time."""
    measured = [step.total_ns for step in steps]
    predicted = [step.predicted_ns(costs) for step in steps]
    off = sorted(abs(p - m) / m for p, m in zip(predicted, measured, strict=True))
    return Deviation(len(off), sum(off) / len(off), off[int(0.9 * (len(off) - 1))], sum(predicted) / sum(measured) - 1)


def calls_of(steps: Iterable[MeasuredStep]) -> list[MeasuredCall]:
    return [call for step in steps for call in step.calls]
