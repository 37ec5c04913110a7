"""How many sequences run, over time, as step records tell it. Knows columns of steps; nothing of requests."""

from __future__ import annotations

import numpy as np

from cbatch.metrics.saturation import Times


def running(start_ns: Times, end_ns: Times, slots_busy: Times, finished: Times) -> tuple[Times, Times]:
    """(times, counts) of n steps in order, [2n] each: so many sequences run from each time until the next.

    Between two steps no record speaks: what a step leaves running is taken to run on until the next one starts, as in
    `StepTotals`. Who has lost its slot to others doesn't run.
    """
    left = np.maximum(slots_busy - finished, 0)
    return np.column_stack([start_ns, end_ns]).ravel(), np.column_stack([slots_busy, left]).ravel()


def mean_running(times: Times, counts: Times, start_ns: int, end_ns: int) -> float:
    """Time-weighted mean over [start, end] of what `running` returns."""
    cut = np.clip(np.append(times, end_ns), start_ns, end_ns)
    return float((np.diff(cut) * counts).sum()) / (end_ns - start_ns)
