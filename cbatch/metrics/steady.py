"""The steady-state window of a replay: after the ramp, before the drain. Knows times and counts only."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields

import numpy as np
import numpy.typing as npt

from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.running import mean_running, running
from cbatch.metrics.saturation import MINIMUM, Saturation, Times, any_ended_meanwhile, inside_at
from cbatch.metrics.step_table import StepTable
from cbatch.metrics.table import RequestTable, present

SAMPLES = 1_000
"""Of the number in the system, over the arrivals' span."""
BATCH = 5
LATENCIES = ("ttft_ns", "tpot_ns", "e2e_ns")


@dataclass(frozen=True, slots=True)
class SteadyState:
    """Figures of the window from `start_ns` (the ramp is over) to `end_ns` (the last arrival; the drain follows)."""

    start_ns: int
    end_ns: int
    arrived: int
    """Requests that arrived in it."""
    requests_per_s: float
    """Requests that completed in it, whenever they arrived / its seconds."""
    output_tokens_per_s: float
    """Output tokens of the steps that ended in it / its seconds."""
    concurrency: float
    """Time-weighted mean of running sequences over it: all samples of a request, and none that lost its slot."""
    latencies: Mapping[str, Distribution]
    """`ttft_ns`, `tpot_ns`, `e2e_ns` of requests that arrived in it and completed, whenever they did."""

    def to_dict(self) -> dict[str, object]:
        """JSON-ready, with units in the names."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["latencies"] = {name: d.to_dict() for name, d in self.latencies.items()}
        return record


def mser(values: Times) -> int:
    """How many of `values`, [n], to cut off in front, at most half: the marginal standard error rule.

    The d <= n / 2 (the first, where several are) that minimises sum((y[i] - mean(y[d:]))**2 for i >= d) / (n - d)**2,
    the squared standard error of the mean of what is kept (White, Simulation 69(6), 1997).
    """
    tail = np.asarray(values, dtype=np.float64)[::-1]
    kept = np.arange(1, tail.size + 1)
    squares = np.cumsum(tail**2) - np.cumsum(tail) ** 2 / kept
    return int(np.argmin((squares / kept**2)[::-1][: tail.size // 2 + 1]))


def steady_window(arrivals_ns: Times, finished_ns: Times, queue: Saturation | None) -> tuple[int, int] | str:
    """(start, end) in ns, or why there is no steady state.

    It starts where `mser` cuts the number of requests in the system (arrived and not finished), sampled 1,000 times
    between the first and the last arrival and averaged in batches of 5 (MSER-5; White, Cobb & Spratt, WSC 2000).
    """
    if arrivals_ns.size < MINIMUM:
        return f"steady state needs {MINIMUM} requests, there are {arrivals_ns.size}"
    if np.ptp(arrivals_ns) == 0:
        return "all requests arrive at once"
    if queue is not None and queue.saturated:
        return "the queue grows to the end"
    if not any_ended_meanwhile(arrivals_ns, finished_ns):
        return "the last request came before any had ended"
    times = np.linspace(arrivals_ns.min(), arrivals_ns.max(), SAMPLES)
    batches = inside_at(times, arrivals_ns, finished_ns).reshape(-1, BATCH).mean(axis=1)
    return int(times[BATCH * mser(batches)]), int(times[-1])


def mean_inside(came: Times, left: Times, start_ns: int, end_ns: int) -> float:
    """Time-weighted mean of how many are inside over [start, end]: sum of overlaps / (end - start)."""
    overlaps = np.minimum(left, end_ns) - np.maximum(came, start_ns)
    return float(np.maximum(overlaps, 0).sum()) / (end_ns - start_ns)


def steady_state(
    window: tuple[int, int],
    requests: RequestTable,
    steps: StepTable,
    percentiles: Sequence[float],
) -> SteadyState:
    """The figures of `window`, (start, end) in ns, both in it."""
    start, end = window
    seconds = (end - start) / 1e9
    completed, finished = requests.completed, requests.column("finished_ns")
    arrived = _within(requests.column("arrival_ns"), window)
    latencies = {name: present(requests.column(name)[arrived & completed]) for name in LATENCIES}
    tokens = steps.column("output_tokens")[_within(steps.column("end_ns"), window)]
    times, counts = running(*map(steps.column, ("start_ns", "end_ns", "slots_busy", "finished")))
    return SteadyState(
        start_ns=start,
        end_ns=end,
        arrived=int(arrived.sum()),
        requests_per_s=int((completed & _within(finished, window)).sum()) / seconds,
        output_tokens_per_s=int(tokens.sum()) / seconds,
        concurrency=mean_running(times, counts, start, end),
        latencies={name: Distribution.of(values, percentiles) for name, values in latencies.items()},
    )


def _within(times: Times, window: tuple[int, int]) -> npt.NDArray[np.bool_]:
    return (times >= window[0]) & (times <= window[1])
