"""Metrics of a replay, gathered while it goes on. Knows no trace and no display.

Keeps 96 bytes a request, 40 a step and 8 an output token; nothing else grows.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np

from cbatch.metrics.attribution import Attribution
from cbatch.metrics.objectives import Objectives
from cbatch.metrics.percentiles import PERCENTILES, Distribution
from cbatch.metrics.request import is_completed, itl
from cbatch.metrics.run import RunAccumulator, RunSummary
from cbatch.metrics.saturation import Saturation, Times, any_ended_meanwhile, inside_at, saturation
from cbatch.metrics.steady import SteadyState, mean_inside, steady_state, steady_window
from cbatch.metrics.step_table import StepTable
from cbatch.metrics.steps import per_second, ratio
from cbatch.metrics.table import RequestTable, present
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord

LATENCIES = ("queue_ns", "ttft_ns", "tpot_ns", "e2e_ns", "normalized_latency_ns")


@dataclass(frozen=True, slots=True)
class ReplaySummary:
    """A replay in figures; None where there is nothing to divide by, or nothing to say.

    A request of several samples counts as in `RunSummary`: its times are its first sample's.
    """

    run: RunSummary
    requested_rate: float | None
    """Requests per second that were asked for; None where the trace sets its own times."""
    realised_rate: float | None
    """Requests per second that arrived: (n - 1) / (last arrival - first arrival)."""
    arrived: int
    """Requests, those that couldn't be run included: completed + failed + unfinished."""
    completed: int
    """Finished with `stop` or `length`."""
    failed: int
    """Ended in an error, or couldn't be run at all."""
    unfinished: int
    """Cancelled, because the replay ended first."""
    peak_waiting: int
    """Most requests that had arrived and had no slot yet, at any arrival."""
    peak_running: int
    """Most sequences in a step."""
    saturation: Saturation | None
    """None with few arrivals, where all come at once, and in a closed loop, where they come as they are served."""
    slip: Distribution
    """enqueued - arrival, of every request that the engine was told of."""
    latencies: Mapping[str, Distribution]
    """Of completed requests: `queue_ns`, `ttft_ns`, `tpot_ns` (two tokens or more), `e2e_ns`, `normalized_latency_ns`;
    and `itl_pooled_ns` over all gaps between their tokens."""
    adjusted: Mapping[str, Distribution]
    """As `latencies` without `itl_pooled_ns`, with every failed or unfinished request as +inf: in `ttft_ns` too, where
    it got its first token and no more than that is known."""
    steady: SteadyState | None
    no_steady_state: str | None
    """Why there is no `steady`."""
    objectives: Objectives
    goodput_rps: float | None
    """Requests that meet every objective / duration, per second; None without objectives."""
    attainment: float | None
    """Requests that meet every objective / arrived; None without objectives."""
    attribution: Mapping[str, float]
    """Mean of each part of e2e (the fields of `Attribution`) over completed requests, ns; empty without any."""
    busy_share: float | None
    """Time inside steps / duration."""

    def to_dict(self) -> dict[str, object]:
        """JSON-ready, with units in the names."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["latencies"] = {name: d.to_dict() for name, d in self.latencies.items()}
        record["adjusted"] = {name: d.to_dict() for name, d in self.adjusted.items()}
        record["attribution"] = dict(self.attribution)
        for name in ("run", "saturation", "slip", "steady", "objectives"):
            part = getattr(self, name)
            record[name] = None if part is None else part.to_dict()
        return record


def arrival_rate(arrivals_ns: Times) -> float | None:
    """Arrivals per second, (n - 1) / (last - first); None where no time passes between them."""
    if arrivals_ns.size == 0:
        return None
    return per_second(arrivals_ns.size - 1, int(np.ptp(arrivals_ns)))


class ReplayAccumulator:
    """An `Observer` that can sum up the replay at any moment."""

    def __init__(
        self,
        objectives: Objectives | None = None,
        percentiles: Sequence[float] = PERCENTILES,
        requested_rate: float | None = None,
        *,
        closed_loop: bool = False,
        bytes_per_token: float | None = None,
    ) -> None:
        self._objectives = Objectives() if objectives is None else objectives
        self._percentiles = tuple(percentiles)
        self._requested_rate = requested_rate
        self._closed_loop = closed_loop
        self._run = RunAccumulator(bytes_per_token)
        self.requests = RequestTable()
        """Those that ended; not to be added to."""
        self._met = 0
        self._gaps_ns = array("q")
        self._parts_ns = [0] * len(Attribution._fields)
        self._steps = StepTable()

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        self._run.step(record, view)
        self._steps.add(record)

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self._run.finished(ref, output)
        self.requests.add(output)
        self._met += self._objectives.met(output)
        if is_completed(output):
            self._gaps_ns.frombytes(itl(output.token_ns).tobytes())
            self._parts_ns = [sum(pair) for pair in zip(self._parts_ns, Attribution.of(output), strict=True)]

    def fault(self, fault: RowFault) -> None:
        self._run.fault(fault)
        self.requests.add_fault(fault)

    def summary(self) -> ReplaySummary:
        """The replay so far: of what has ended; requests still in the system aren't known here."""
        run, arrived = self._run.summary(), len(self.requests)
        arrivals = self.requests.column("arrival_ns")
        waited, ended = self.requests.left_queue_ns, self.requests.left_system_ns
        judged_queue = not self._closed_loop and any_ended_meanwhile(arrivals, ended)
        queue = saturation(arrivals, waited) if judged_queue else None
        window = steady_window(arrivals, ended, queue)
        judged = bool(self._objectives.limits_ns)
        return ReplaySummary(
            run=run,
            requested_rate=self._requested_rate,
            realised_rate=arrival_rate(arrivals),
            arrived=arrived,
            completed=run.rows_ok,
            failed=run.rows_failed,
            unfinished=run.rows_cancelled,
            peak_waiting=int(inside_at(arrivals, arrivals, waited).max(initial=0)),
            peak_running=int(self._steps.column("slots_busy").max(initial=0)),
            saturation=queue,
            slip=Distribution.of(present(self.requests.column("slip_ns")), self._percentiles),
            latencies=self._latencies(),
            adjusted=self._adjusted(misses=arrived - run.rows_ok),
            steady=None if isinstance(window, str) else self._steady(window),
            no_steady_state=window if isinstance(window, str) else None,
            objectives=self._objectives,
            goodput_rps=per_second(self._met, run.duration_ns) if judged else None,
            attainment=ratio(self._met, arrived) if judged else None,
            attribution=self._attribution(run.rows_ok),
            busy_share=self._busy_share(run.duration_ns),
        )

    def _latencies(self) -> dict[str, Distribution]:
        pooled = Distribution.of(np.array(self._gaps_ns), self._percentiles)
        return {**self._adjusted(misses=0), "itl_pooled_ns": pooled}

    def _adjusted(self, misses: int) -> dict[str, Distribution]:
        done = self.requests.completed
        values = {name: present(self.requests.column(name)[done]) for name in LATENCIES}
        return {name: Distribution.of(array, self._percentiles, misses) for name, array in values.items()}

    def _steady(self, window: tuple[int, int]) -> SteadyState:
        return steady_state(window, self.requests, self._steps, self._percentiles)

    def _attribution(self, completed: int) -> dict[str, float]:
        if completed == 0:
            return {}
        return {name: ns / completed for name, ns in zip(Attribution._fields, self._parts_ns, strict=True)}

    def _busy_share(self, duration_ns: int) -> float | None:
        if duration_ns == 0:
            return None
        last = int(np.nanmax(self.requests.column("finished_ns")))
        return mean_inside(self._steps.column("start_ns"), self._steps.column("end_ns"), last - duration_ns, last)
