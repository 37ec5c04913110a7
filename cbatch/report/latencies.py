"""How latencies and rates are told: names, three digits, and why a figure is missing. Knows no tables."""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable

from cbatch.metrics import Distribution, Objectives
from cbatch.metrics.percentiles import label, values_needed

METRICS = {
    "queue_ns": "queue",
    "ttft_ns": "TTFT",
    "tpot_ns": "TPOT",
    "itl_pooled_ns": "pooled ITL",
    "e2e_ns": "e2e",
    "normalized_latency_ns": "e2e/token",
}
"""What metrics of a request are called in tables."""


def significant(value: float | None) -> str:
    """`0.251`, `4.03`, `12.0`, `1,320`, or `-`: three digits, for rates of any size."""
    if value is None:
        return "-"
    return f"{value:,.0f}" if value >= 99.95 or value == 0 else f"{value:#.3g}"


def milliseconds(ns: float | None) -> str:
    """`0.0312 ms`, `8.10 ms`, `810 ms`, `1.25 s`, `inf`, or `-`: three digits, for comparing latencies."""
    if ns is None or math.isinf(ns):
        return "-" if ns is None else "inf"
    return f"{significant(ns / 1e6)} ms" if ns < 999.5e6 else f"{significant(ns / 1e9)} s"


def objectives_text(objectives: Objectives) -> str:
    """`TTFT 500 ms, TPOT 50 ms`."""
    limits = objectives.limits_ns.items()
    return ", ".join(f"{METRICS[f'{name}_ns']} {limit / 1e6:g} ms" for name, limit in limits)


def too_few(shown: Iterable[Distribution], percentiles: Collection[float] | None = None) -> str | None:
    """What a dash in the place of a percentile (of `percentiles`, or any) means; None where there is no such dash."""
    pairs = (pair for found in shown for pair in found.percentiles)
    hidden = [p for p, value in pairs if value is None and values_needed(p) > 1]
    wanted = dict.fromkeys(p for p in hidden if percentiles is None or p in percentiles)
    needs = ", ".join(f"{label(p)} needs {values_needed(p):,} values" for p in wanted)
    return f"- stands for too few: {needs}." if needs else None
