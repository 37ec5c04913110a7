"""Made-up replays for the report's tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np

from cbatch.metrics import Attribution, Distribution, Objectives, ReplaySummary, RunAccumulator, Saturation, SteadyState

SECOND = 1_000_000_000
LATENCIES = ("queue_ns", "ttft_ns", "tpot_ns", "itl_pooled_ns", "e2e_ns", "normalized_latency_ns")
PERCENTILES = (50.0, 90.0, 99.0)


def distribution(
    count: int, scale_ns: float, percentiles: tuple[float, ...] = PERCENTILES, misses: int = 0
) -> Distribution:
    return Distribution.of(np.linspace(scale_ns / 2, scale_ns * 1.5, count), percentiles, misses)


def make_replay(
    completed: int = 996,
    *,
    failed: int = 0,
    unfinished: int = 0,
    saturated: bool | None = False,
    steady: bool = True,
    percentiles: tuple[float, ...] = PERCENTILES,
    **fields: Any,
) -> ReplaySummary:
    """250 s at 4 requests/s; `fields` are those of `ReplaySummary`."""
    missed = failed + unfinished
    latencies = {name: distribution(completed, 250e6 * (i + 1), percentiles) for i, name in enumerate(LATENCIES)}
    adjusted = {
        name: distribution(completed, 250e6 * (i + 1), percentiles, missed)
        for i, name in enumerate(LATENCIES)
        if name != "itl_pooled_ns"
    }
    run = replace(
        RunAccumulator().summary(),
        rows_total=completed + missed,
        rows_ok=completed,
        finish_reasons={"length": completed},
        prompt_tokens=123_456,
        output_tokens=45_678,
        duration_ns=250 * SECOND,
        requests_per_s=3.984,
        output_tokens_per_s=412.3,
        total_tokens_per_s=1320.4,
        concurrency=12.34,
        slot_utilisation=0.743,
        short_of_memory=0.0,
        kv_utilisation=0.41,
    )
    window = SteadyState(
        10 * SECOND, 230 * SECOND, 870, 4.01, 420.0, 13.1, {n: latencies[n] for n in ("ttft_ns", "tpot_ns", "e2e_ns")}
    )
    queue = (12, 80) if saturated else (8, 3)
    values: dict[str, Any] = {
        "run": run,
        "requested_rate": 4.0,
        "realised_rate": 4.123,
        "arrived": completed + missed,
        "completed": completed,
        "failed": failed,
        "unfinished": unfinished,
        "peak_waiting": 80,
        "peak_running": 16,
        "saturation": None
        if saturated is None
        else Saturation(saturated, *queue, queue[1] - queue[0], 63.2, completed),
        "slip": distribution(completed, 1e6, percentiles),
        "latencies": latencies,
        "adjusted": adjusted,
        "steady": window if steady else None,
        "no_steady_state": None if steady else "the queue grows to the end",
        "objectives": Objectives({"ttft": 500e6, "tpot": 50e6}),
        "goodput_rps": 3.21,
        "attainment": 0.812,
        "attribution": {
            n: ns * 1e6 for n, ns in zip(Attribution._fields, (0.1, 320, 90, 700, 210, 80, 0, 40), strict=True)
        },
        "busy_share": 0.93,
    }
    return ReplaySummary(**{**values, **fields})
