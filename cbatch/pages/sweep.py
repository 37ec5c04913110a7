"""A rate sweep as it lies on disk: a point for each rate. Draws nothing."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from cbatch.errors import InputError
from cbatch.outputs.directory import RUN_JSON, SWEEP
from cbatch.pages.files import Column, Columns, column, column_names, damaged, figure, lookup, read_json, read_table
from cbatch.pages.play import PARTS

_NEEDED = (
    "request_rate",
    "realised_rate",
    "arrived",
    "completed",
    "saturated",
    "requests_per_s",
    "output_tokens_per_s",
    "goodput_rps",
    "attainment",
)
_LATENCY = re.compile(r"(ttft|tpot|e2e)_p[\d.]+_ns")


@dataclass(frozen=True)
class Sweep:
    """Replays of one trace at several rates, ascending."""

    label: str
    points: Columns
    """Of sweep.parquet, float64[rates]: `request_rate`, `ttft_p50_ns` and the rest.

    A latency is inf where so many requests weren't answered, and NaN where there were too few to say."""
    records: tuple[Mapping[str, Any], ...]
    """run.json of each rate."""

    @property
    def rates(self) -> Column:
        """Requests per second asked for."""
        return self.points["request_rate"]

    @property
    def saturated(self) -> npt.NDArray[np.bool_]:
        """Where the queue grew to the end."""
        return np.asarray(self.points["saturated"] == 1, dtype=np.bool_)

    def percentiles(self, metric: str) -> dict[str, Column]:
        """`{"p50": float64[rates] in ns}` of `ttft` and the like, ascending."""
        found = [name for name in self.points if name.startswith(f"{metric}_p") and name.endswith("_ns")]
        labels = sorted((name.removeprefix(f"{metric}_p").removesuffix("_ns") for name in found), key=float)
        return {f"p{p}": self.points[f"{metric}_p{p}_ns"] for p in labels}

    def objective_ns(self, name: str) -> float | None:
        """The limit on a metric such as `ttft_ns`."""
        return next((figure(record, "replay", "objectives", name) for record in self.records), None)

    @property
    def wanted(self) -> float | None:
        """The share of requests that has to meet the objectives."""
        return next((figure(record, "options", "attainment") for record in self.records), None)

    def parts_ns(self) -> list[dict[str, float]]:
        """Mean parts of e2e at each rate, ns."""
        return [
            {name: figure(record, "totals", "attribution", name) or 0.0 for name in PARTS} for record in self.records
        ]

    @property
    def notes(self) -> list[str]:
        """Rates whose replay isn't complete."""
        told = zip(self.rates.tolist(), self.records, strict=True)
        return [
            f"{self.label}: the replay at {rate:g} requests/s ended as {lookup(record, 'status')!r}"
            for rate, record in told
            if lookup(record, "status") not in ("complete", "time_up")
        ]


def read_sweep(directory: Path, label: str) -> Sweep:
    """The sweep in `directory`. Raises `InputError`."""
    path = directory / SWEEP
    names = _names(path)
    table = read_table(path, names)
    if table.num_rows == 0:
        raise damaged(path, "it holds no rates")
    table = table.sort_by("request_rate")
    points = {name: column(table, name, path) for name in names}
    return Sweep(label, points, tuple(_record(directory, rate) for rate in points["request_rate"].tolist()))


def _names(path: Path) -> list[str]:
    """The columns to read: what is needed, and the latencies that are there."""
    return [*_NEEDED, *(name for name in column_names(path) if _LATENCY.fullmatch(name))]


def _record(directory: Path, rate: float) -> dict[str, Any]:
    folder = directory / f"rate-{rate:g}"
    if not folder.is_dir():
        raise InputError(f"{folder} is missing, and {directory / SWEEP} has its rate: put it back, or sweep again")
    return read_json(folder / RUN_JSON)
