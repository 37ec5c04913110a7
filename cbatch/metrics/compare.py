"""Variants of a run beside each other: which metrics there are, and their ratios to a baseline. Knows no display."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from statistics import median

import numpy as np
import numpy.typing as npt

from cbatch.errors import UsageError
from cbatch.metrics.bootstrap import RESAMPLES, STATISTICS, Floats, Ratio, ratio_of_runs, ratios_of_requests
from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.run_data import RunData
from cbatch.metrics.table import present

LOWER, HIGHER = "lower", "higher"
Repetitions = Mapping[str, Sequence[RunData]]
"""Runs by variant; the r-th of each ran beside each other."""


@dataclass(frozen=True, slots=True)
class Metric:
    """A figure to compare, of every request (with `STATISTICS` over them) or of a whole run."""

    name: str
    unit: str
    better: str | None
    """`lower` or `higher`; None where neither is good in itself."""
    of_run: Callable[[RunData], float | None] | None = None
    """None: of every request, the column `<name>_ns` of `RunData`."""


def _pooled_p99_itl(run: RunData) -> float | None:
    return run.summary.latencies["itl_pooled_ns"].p99_ns


def _longest_stall(run: RunData) -> float | None:
    gaps = present(run.metric("max_itl_ns", run.rows))
    return float(gaps.max()) if gaps.size else None


METRICS = (
    Metric("output_throughput", "tokens/s", HIGHER, lambda run: run.summary.run.output_tokens_per_s),
    Metric("request_throughput", "requests/s", HIGHER, lambda run: run.summary.run.requests_per_s),
    Metric("makespan", "ns", LOWER, lambda run: run.summary.run.duration_ns),
    Metric("goodput", "requests/s", HIGHER, lambda run: run.summary.goodput_rps),
    Metric("attainment", "share", HIGHER, lambda run: run.summary.attainment),
    Metric("ttft", "ns", LOWER),
    Metric("tpot", "ns", LOWER),
    Metric("itl_pooled_p99", "ns", LOWER, _pooled_p99_itl),
    Metric("max_itl", "ns", LOWER),
    Metric("longest_stall", "ns", LOWER, _longest_stall),
    Metric("e2e", "ns", LOWER),
    Metric("queue", "ns", LOWER),
    Metric("slot_utilisation", "share", HIGHER, lambda run: run.summary.run.slot_utilisation),
    Metric("idle_slot_steps", "slot-steps", LOWER, lambda run: run.idle_slot_steps),
    Metric("kv_utilisation", "share", HIGHER, lambda run: run.summary.run.kv_utilisation),
    Metric("kv_waste", "share", LOWER, lambda run: run.summary.run.kv_waste),
    Metric("concurrency", "sequences", None, lambda run: run.summary.run.concurrency),
)
"""`max_itl`: the longest gap between two tokens of a request; `longest_stall`: the longest of the run. Most requests
have too few tokens for a p99 of their own gaps to be another figure than the longest."""


@dataclass(frozen=True, slots=True)
class Row:
    """One metric of one variant."""

    metric: Metric
    statistic: str | None
    """One of `STATISTICS`; None for a figure of whole runs."""
    variant: str
    median: float | None
    """Over repetitions; of a metric of requests, over all that completed."""
    ratio: Ratio | None
    """To the baseline, over requests that completed in every repetition of both; None in rows of the baseline."""

    @property
    def key(self) -> str:
        """`ttft_p99`, `makespan`."""
        return self.metric.name if self.statistic is None else f"{self.metric.name}_{self.statistic}"

    @property
    def verdict(self) -> str | None:
        """`better` or `worse` where the interval excludes 1; None where no difference is seen, or neither is good."""
        if self.ratio is None or self.ratio.low is None or self.ratio.high is None or self.metric.better is None:
            return None
        if self.ratio.low <= 1 <= self.ratio.high:
            return None
        return "better" if (self.ratio.high < 1) == (self.metric.better == LOWER) else "worse"

    def to_dict(self) -> dict[str, object]:
        """JSON-ready; `metric` names the statistic too."""
        ratio = Ratio(None, None, None, 0, 0) if self.ratio is None else self.ratio
        return {
            "metric": self.key,
            "name": self.metric.name,
            "statistic": self.statistic,
            "unit": self.metric.unit,
            "better": self.metric.better,
            "variant": self.variant,
            "median": self.median,
            **ratio._asdict(),
            "verdict": self.verdict,
        }


@dataclass(frozen=True, slots=True)
class Comparison:
    """Rows by metric, then statistic, then variant; a metric that no variant has isn't there."""

    variants: tuple[str, ...]
    baseline: str
    repeats: int
    rows: tuple[Row, ...]

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        head = {"variants": list(self.variants), "baseline": self.baseline, "repeats": self.repeats}
        return {**head, "metrics": [row.to_dict() for row in self.rows]}


def compare(runs: Repetitions, baseline: str, seed: int = 0, resamples: int = RESAMPLES) -> Comparison:
    """Every variant's figures, and their ratios to those of `baseline`.

    Where a variant has fewer repetitions than others, those that it lacks are left out of all. `seed` draws the
    resamples. 1,000 requests in three repetitions take about 2 s a variant. Raises `UsageError`.
    """
    _check(runs, baseline)
    repeats = min(map(len, runs.values()))
    kept = {variant: tuple(found[:repeats]) for variant, found in runs.items()}
    rows = [row for metric in METRICS for row in _rows(metric, kept, baseline, seed, resamples)]
    shown = {row.key for row in rows if row.median is not None}
    return Comparison(tuple(kept), baseline, repeats, tuple(row for row in rows if row.key in shown))


def _check(runs: Repetitions, baseline: str) -> None:
    if baseline not in runs:
        raise UsageError(f"the baseline {baseline!r} isn't among the variants: give one of {', '.join(runs)}")
    for variant, found in runs.items():
        if not found:
            raise UsageError(f"the variant {variant!r} has no finished run: let it run at least once")


def _rows(metric: Metric, runs: Repetitions, baseline: str, seed: int, resamples: int) -> Iterator[Row]:
    if metric.of_run is not None:
        yield from _rows_of_runs(metric, metric.of_run, runs, baseline)
        return
    medians = {variant: _medians(metric, found) for variant, found in runs.items()}
    ratios = {
        variant: ratios_of_requests(*_pairs(metric, runs[baseline], found), seed=seed, resamples=resamples)
        for variant, found in runs.items()
        if variant != baseline
    }
    for statistic in STATISTICS:
        for variant in runs:
            ratio = None if variant == baseline else ratios[variant][statistic]
            yield Row(metric, statistic, variant, medians[variant][statistic], ratio)


def _rows_of_runs(
    metric: Metric, of_run: Callable[[RunData], float | None], runs: Repetitions, baseline: str
) -> Iterator[Row]:
    figures = {variant: [_number(of_run(run)) for run in found] for variant, found in runs.items()}
    for variant, values in figures.items():
        ratio = None if variant == baseline else ratio_of_runs(figures[baseline], values)
        yield Row(metric, None, variant, _median(values), ratio)


def _number(value: float | None) -> float:
    return np.nan if value is None else float(value)


def _median(values: Sequence[float]) -> float | None:
    """Of the finite ones."""
    finite = [value for value in values if np.isfinite(value)]
    return median(finite) if finite else None


def _medians(metric: Metric, runs: Sequence[RunData]) -> dict[str, float | None]:
    """Of each statistic over the repetitions, each over all of its completed requests."""
    found = [Distribution.of(present(run.metric(f"{metric.name}_ns", run.rows))) for run in runs]
    told = {name: [_number(getattr(d, f"{name}_ns")) for d in found] for name in STATISTICS}
    return {name: _median(values) for name, values in told.items()}


def _pairs(metric: Metric, baseline: Sequence[RunData], variant: Sequence[RunData]) -> tuple[Floats, Floats]:
    """A metric in both, float64[repetitions, requests], without requests that completed but can't have it."""
    every = (*baseline, *variant)
    rows: npt.NDArray[np.int64] = np.unique(np.concatenate([run.rows for run in every]))
    base, other = (np.stack([run.metric(f"{metric.name}_ns", rows) for run in runs]) for runs in (baseline, variant))
    lacking = np.isnan(base).all(axis=0) & np.isnan(other).all(axis=0)
    lacking &= np.stack([run.has_completed(rows) for run in every]).all(axis=0)
    return base[:, ~lacking], other[:, ~lacking]
