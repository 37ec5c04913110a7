"""The table of a rate sweep: a row for each replay. Knows how to write it, not how replays are made."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.metrics import ReplaySummary
from cbatch.outputs.directory import SWEEP
from cbatch.outputs.files import publish, temporary, writing

_LATENCIES = ("queue_ns", "ttft_ns", "tpot_ns", "e2e_ns")


def write_sweep(directory: Path, points: Sequence[tuple[float, ReplaySummary]]) -> Path:
    """Write `sweep.parquet`, ascending by rate, and return its path. Raises `WriteError`.

    A latency is that of all requests, those that failed or didn't finish as +inf; null where there are too few to say.
    """
    path = directory / SWEEP
    rows = [_row(rate, summary) for rate, summary in sorted(points, key=lambda point: point[0])]
    with writing(path):
        pq.write_table(pa.Table.from_pylist(rows), temporary(path))
        publish(path)
    return path


def _row(rate: float, summary: ReplaySummary) -> dict[str, Any]:
    saturation = summary.saturation
    return {
        "request_rate": rate,
        "realised_rate": summary.realised_rate,
        "arrived": summary.arrived,
        "completed": summary.completed,
        "failed": summary.failed,
        "unfinished": summary.unfinished,
        "saturated": None if saturation is None else saturation.saturated,
        "requests_per_s": summary.run.requests_per_s,
        "output_tokens_per_s": summary.run.output_tokens_per_s,
        "goodput_rps": summary.goodput_rps,
        "attainment": summary.attainment,
        "concurrency": summary.run.concurrency,
        "slot_utilisation": summary.run.slot_utilisation,
        "slip_p99_ns": summary.slip.p99_ns,
        **{
            f"{name.removesuffix('_ns')}_p{p:g}_ns": None if value is None else float(value)
            for name in _LATENCIES
            for p, value in summary.adjusted[name].percentiles
        },
    }
