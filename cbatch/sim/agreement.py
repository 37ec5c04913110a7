"""A predicted replay beside the one that was measured. Knows the figures of both, and no files."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, NamedTuple

from cbatch.metrics import ReplaySummary

_RATES = ("requests_per_s", "output_tokens_per_s")
_LATENCIES = ("ttft_ns", "tpot_ns", "e2e_ns")


class Agreement(NamedTuple):
    """One figure: throughput per second, or the mean of a latency, ns."""

    name: str
    predicted: float
    measured: float

    @property
    def off(self) -> float:
        """predicted / measured - 1."""
        return self.predicted / self.measured - 1


def agreement(summary: ReplaySummary, totals: Mapping[str, Any]) -> list[Agreement]:
    """Of figures that both have; `totals` is what `ReplaySummary.to_dict` made of the measured one."""
    pairs: list[tuple[str, float | None, Any]] = [
        (name, getattr(summary.run, name), _lookup(totals, "run", name)) for name in _RATES
    ]
    pairs += [
        (name, summary.latencies[name].mean_ns, _lookup(totals, "latencies", name, "mean_ns")) for name in _LATENCIES
    ]
    return [
        Agreement(name, predicted, float(measured))
        for name, predicted, measured in pairs
        if predicted is not None and isinstance(measured, int | float) and measured > 0
    ]


def _lookup(record: object, *names: str) -> object:
    for name in names:
        record = record.get(name) if isinstance(record, Mapping) else None
    return record
