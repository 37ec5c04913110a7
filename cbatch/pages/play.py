"""One run or replay as it lies on disk, and several under one name. Knows the tables; draws nothing."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from cbatch.metrics import Attribution, Distribution
from cbatch.metrics.running import running
from cbatch.outputs.directory import REQUESTS, RUN_JSON, STEPS
from cbatch.pages.files import Column, Columns, column, damaged, figure, lookup, read_json, read_table
from cbatch.pages.over_time import spread
from cbatch.pages.words import printable

PARTS = Attribution._fields
_ENDED = ("complete", "time_up", "stopped", "aborted")
"""Statuses with which every table is there."""
_TIMES = ("arrival_ns", "enqueued_ns", "admitted_ns", "first_token_ns", "finished_ns")
_REQUESTS = ("row", *_TIMES, "output_tokens", "slot", "ttft_ns", "tpot_ns", "e2e_ns")
_STEPS = (
    "start_ns",
    "end_ns",
    "finished",
    "output_tokens",
    "slots_busy",
    "slots_total",
    "kv_used_cells",
    "kv_reserved_cells",
    "kv_total_cells",
)


@dataclass(frozen=True)
class Play:
    """A run or a replay."""

    directory: Path
    record: Mapping[str, Any]
    """run.json."""
    requests: Columns
    """Of requests.parquet: numbers, with `completed` (1 or 0) and the parts of `Attribution`. A row with n samples has
    n lines."""
    steps: Columns
    """Of steps.parquet."""

    @property
    def is_replay(self) -> bool:
        """Whether requests arrived at times of their own; in a run their rows were read ahead."""
        return isinstance(self.record.get("replay"), Mapping)

    @property
    def status(self) -> str:
        return printable(str(self.record.get("status", "unknown")))

    @property
    def ended(self) -> bool:
        return self.status in _ENDED

    @cached_property
    def origin_ns(self) -> float:
        """The first arrival; figures over time count from it."""
        return float(self.requests["arrival_ns"].min())

    @property
    def span_ns(self) -> float:
        """First arrival to last finish; 0 without requests."""
        finished = self.requests["finished_ns"]
        return float(finished.max()) - self.origin_ns if finished.size else 0.0

    def since_start(self, name: str) -> Column:
        """Times of requests, ns since the first arrival."""
        return self.requests[name] - self.origin_ns

    @property
    def came_ns(self) -> Column:
        """When each request began to wait, ns since the first arrival; in a run, when the engine got it."""
        return self.since_start("arrival_ns" if self.is_replay else "enqueued_ns")

    @property
    def left_queue_ns(self) -> Column:
        """When each stopped waiting: it got a slot, or ended without one."""
        admitted = self.since_start("admitted_ns")
        return np.where(np.isnan(admitted), self.since_start("finished_ns"), admitted)

    def mean_running(self, at: Column) -> Column:
        """Time-weighted mean of running sequences in each bin of `at`, ns since the first arrival; it needs steps."""
        columns = (self.steps[name] for name in ("start_ns", "end_ns", "slots_busy", "finished"))
        times, counts = running(*columns)
        times = times - self.origin_ns
        return spread(at, times[:-1], times[1:], counts[:-1] * np.diff(times)) / np.diff(at)

    def mean_running_until(self, end_ns: float) -> float:
        """The same from the first arrival to `end_ns`."""
        return float(self.mean_running(np.array([0.0, end_ns]))[0])

    @property
    def slots(self) -> int:
        """Slots there are, or at least those that were used."""
        total = self.steps["slots_total"]
        used = self.requests["slot"]
        used = used[~np.isnan(used)]
        return int(max(total.max(initial=0), used.max(initial=-1) + 1))

    @property
    def missed(self) -> int:
        """Requests without an answer, those that never got to the engine included."""
        known = sum(figure(self.total(), name) or 0 for name in ("failed", "unfinished"))
        in_run = sum(figure(self.total(), name) or 0 for name in ("rows_failed", "rows_cancelled"))
        in_table = np.unique(self.requests["row"]).size - self.answered
        return int(max(known, in_run, in_table))

    @property
    def answered(self) -> int:
        """Rows of which a sample completed."""
        return int(np.unique(self.requests["row"][self.requests["completed"] == 1]).size)

    def total(self) -> object:
        """The totals; of a replay, `run` in them has those of a run."""
        return self.record.get("totals")

    def run_total(self, *names: str) -> float | None:
        """A total that runs and replays both have."""
        inside = figure(self.total(), "run", *names)
        return figure(self.total(), *names) if inside is None else inside

    @property
    def output_tokens_per_s(self) -> float | None:
        """As run.json has it, else sampled tokens / (first arrival to last finish)."""
        told = self.run_total("output_tokens_per_s")
        if told is not None or self.span_ns == 0:
            return told
        return float(self.requests["output_tokens"].sum()) * 1e9 / self.span_ns

    def objective_ns(self, name: str) -> float | None:
        """The limit on a metric such as `ttft_ns`."""
        return figure(self.record, "replay", "objectives", name)


@dataclass(frozen=True)
class Group:
    """Plays of one kind under one label: the repetitions of a variant, or a single play."""

    label: str
    plays: tuple[Play, ...]
    index: int
    """Place among the groups shown: it has its colour in every picture."""

    @property
    def first(self) -> Play:
        """The one to show over time."""
        return self.plays[0]

    @property
    def has_requests(self) -> bool:
        return all(play.requests["arrival_ns"].size for play in self.plays)

    @property
    def has_steps(self) -> bool:
        return all(play.steps["start_ns"].size for play in self.plays)

    def completed(self, name: str) -> Column:
        """A metric of all completed requests that have it, over all plays."""
        columns = [play.requests[name][play.requests["completed"] == 1] for play in self.plays]
        values: Column = np.concatenate(columns)
        return values[~np.isnan(values)]

    @property
    def missed(self) -> int:
        return sum(play.missed for play in self.plays)

    @property
    def answered(self) -> int:
        """Samples that completed; mostly a request has one."""
        return int(sum(play.requests["completed"].sum() for play in self.plays))

    def distribution(self, name: str) -> Distribution:
        """Of a latency, with every missed request as +inf."""
        return Distribution.of(self.completed(name), misses=self.missed)

    def parts_ns(self) -> dict[str, float]:
        """Mean of each part of e2e over completed requests, ns; empty without any."""
        means = {name: self.completed(name) for name in PARTS}
        return {name: float(values.mean()) for name, values in means.items() if values.size}


def lasting(groups: Sequence[Group]) -> list[Group]:
    """Those that can be shown over time: with requests and steps, and some time in them."""
    return [group for group in groups if group.has_requests and group.has_steps and group.first.span_ns > 0]


def read_play(directory: Path) -> Play:
    """The run or replay in `directory`. One that hasn't ended may lack its tables. Raises `InputError`."""
    record = read_json(directory / RUN_JSON)
    must = record.get("status") in _ENDED
    if must and not isinstance(record.get("totals"), Mapping):
        raise damaged(directory / RUN_JSON, f"it says {record['status']} and holds no totals")
    return Play(
        directory, record, _requests(directory / REQUESTS, must=must), _numbers(directory / STEPS, _STEPS, must)
    )


def _requests(path: Path, *, must: bool) -> Columns:
    if not must and not path.exists():
        return _none((*_REQUESTS, "completed", *PARTS))
    table = read_table(path, (*_REQUESTS, "finish_reason", "attribution"))
    reasons = table["finish_reason"].to_pylist()
    completed = np.array([reason in ("stop", "length") for reason in reasons], dtype=np.float64)
    parts = _parts(table, path)
    return {name: column(table, name, path) for name in _REQUESTS} | {"completed": completed} | parts


def _parts(table: pa.Table, path: Path) -> Columns:
    kind = table.schema.field("attribution").type
    names = {kind.field(i).name for i in range(kind.num_fields)} if pa.types.is_struct(kind) else set()
    if not names.issuperset(PARTS):
        raise damaged(path, f"its attribution has no {', '.join(sorted(set(PARTS) - names))}")
    flat = pa.Table.from_batches(table.select(["attribution"]).to_batches()).flatten()
    flat = flat.rename_columns([name.removeprefix("attribution.") for name in flat.column_names])
    return {name: column(flat, name, path) for name in PARTS}


def _numbers(path: Path, names: Sequence[str], must: bool) -> Columns:
    if not must and not path.exists():
        return _none(names)
    table = read_table(path, names)
    return {name: column(table, name, path) for name in names}


def _none(names: Sequence[str]) -> Columns:
    return {name: np.empty(0) for name in names}


def model_name(play: Play) -> str:
    """The model's file, without its folder."""
    path = lookup(play.record, "model", "path")
    return printable(Path(path).name) if isinstance(path, str) else "–"
