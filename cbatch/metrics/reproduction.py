"""A published study beside what was measured: its figures and their ratios. Knows no workload and no display."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np

from cbatch.metrics.bootstrap import Ratio, ratio_of_runs
from cbatch.metrics.run_data import RunData

NO_RATIO = Ratio(None, None, None, 0, 0)


@dataclass(frozen=True, slots=True)
class Measure:
    """A figure of a run."""

    unit: str
    of_run: Callable[[RunData], float | None]


MEASURES: Mapping[str, Measure] = {
    "output_throughput": Measure("tokens/s", lambda run: run.summary.run.output_tokens_per_s),
    "ttft_mean": Measure("ns", lambda run: run.summary.latencies["ttft_ns"].mean_ns),
    "normalized_latency_p50": Measure("ns", lambda run: run.summary.latencies["normalized_latency_ns"].p50_ns),
}
RATE_AT_LATENCY = "rate_at_latency"
"""Of `rate_at_latency`, in requests/s."""


@dataclass(frozen=True, slots=True)
class Finding:
    """One figure of two policies at one point."""

    point: str
    metric: str
    unit: str
    medians: Mapping[str, float | None]
    """By policy, the baseline first; over repetitions."""
    ratio: Ratio
    """Of the last to the baseline; its interval tells how runs differ, not requests."""
    published: float | None
    """That ratio; None where the study doesn't tell it."""

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        ratio = {name: getattr(self.ratio, name) for name in ("ratio", "low", "high")}
        told = {"point": self.point, "metric": self.metric, "unit": self.unit, "medians": dict(self.medians)}
        return {**told, **ratio, "published": self.published}


@dataclass(frozen=True, slots=True)
class Reproduction:
    """Everything that a preset came to."""

    preset: str
    source: str
    reason: str
    """Why the ratios may differ here."""
    scale: float
    """Of the published lengths."""
    requests: int
    """A point."""
    repeats: int
    capacity_rps: float | None
    """Requests per second that loads are shares of; None where all come at once."""
    findings: tuple[Finding, ...]
    outputs: int
    """Requests whose outputs were compared with the baseline's."""
    same_outputs: int

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        record = {name: getattr(self, name) for name in self.__slots__}
        return {**record, "findings": [finding.to_dict() for finding in self.findings]}


def finding(point: str, metric: str, runs: Mapping[str, Sequence[RunData]], published: float | None) -> Finding:
    """Of as many runs of each policy, the r-th of each beside each other."""
    measure = MEASURES[metric]
    figures = {policy: [_number(measure.of_run(run)) for run in found] for policy, found in runs.items()}
    base, other = (list(figures.values())[i] for i in (0, -1))
    medians = {policy: _median(values) for policy, values in figures.items()}
    return Finding(point, metric, measure.unit, medians, ratio_of_runs(base, other), published)


def rates_at_latency(rates: Sequence[float], findings: Sequence[Finding], published: float) -> Finding:
    """The rate that each policy serves at twice the latency that the last has at the lowest rate.

    `findings`: a latency at each of `rates`, ascending.
    """
    policies = list(findings[0].medians)
    idle = findings[0].medians[policies[-1]]
    found = {
        policy: None if idle is None else rate_at(2 * idle, rates, [_number(f.medians[policy]) for f in findings])
        for policy in policies
    }
    base, other = found[policies[0]], found[policies[-1]]
    ratio = NO_RATIO if base is None or other is None else NO_RATIO._replace(ratio=other / base)
    return Finding("all", RATE_AT_LATENCY, "requests/s", found, ratio, published)


def rate_at(limit: float, rates: Sequence[float], latencies: Sequence[float]) -> float | None:
    """Where a latency first exceeds `limit`, linear between ascending `rates`; the last rate where it never does.

    None where it does from the first on, or isn't known there.
    """
    served = None
    for i, (rate, latency) in enumerate(zip(rates, latencies, strict=True)):
        if not latency <= limit:
            if served is not None and np.isfinite(latency):
                below = latencies[i - 1]
                served += (rate - served) * (limit - below) / (latency - below)
            return served
        served = rate
    return served


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _median(values: Sequence[float]) -> float | None:
    finite = [value for value in values if np.isfinite(value)]
    return median(finite) if finite else None
