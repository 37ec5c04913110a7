"""The whole loop against queueing theory: an M/D/1 queue on the fake runner and a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import numpy as np
import pytest

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Driver
from cbatch.engine import Engine, FakeRunner
from cbatch.feed import Arrivals
from cbatch.metrics.request import queue
from cbatch.sampling import SamplingParams
from cbatch.types import EngineView, Job, Request, RequestOutput, RowFault, RowRef, StepRecord

SERVICE_NS = 1_000_000


class QueueTimes:
    """An observer that keeps the queue times only, ns."""

    def __init__(self) -> None:
        self.values: list[int] = []

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        pass

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        waited = queue(output.request.arrival_ns, output.admitted_ns)
        assert waited is not None
        self.values.append(waited)

    def fault(self, fault: RowFault) -> None:
        raise AssertionError(fault)


def poisson_arrivals(utilisation: float, requests: int, seed: int) -> list[int]:
    gaps = np.random.default_rng(seed).exponential(SERVICE_NS / utilisation, requests)
    arrivals: list[int] = np.cumsum(gaps).astype(np.int64).tolist()
    return arrivals


def jobs(arrivals: list[int]) -> Iterator[Job]:
    """Requests of one token in and one out: a step, and so a service, each."""
    prompt, sampling = np.ones(1, np.int32), SamplingParams(max_tokens=1)
    for number, arrival_ns in enumerate(arrivals):
        ref = RowRef(number, str(number), "", arrival_ns)
        yield ref, Request(ref.id, prompt, sampling, arrival_ns=arrival_ns)


def lindley(arrivals: list[int]) -> Iterator[int]:
    """Queue times of one server, first come first served (Lindley 1952): W' = max(0, W + D - gap)."""
    waited, before = 0, arrivals[0] - SERVICE_NS
    for arrival in arrivals:
        waited = max(0, waited + SERVICE_NS - (arrival - before))
        before = arrival
        yield waited


@pytest.mark.parametrize(("utilisation", "requests"), [(0.5, 50_000), (0.8, 100_000)])
def test_mean_queue_time_is_that_of_an_m_d_1_queue(utilisation: float, requests: int) -> None:
    """Pollaczek-Khinchine for a constant service time D: W = rho D / (2 (1 - rho))."""
    arrivals, clock = poisson_arrivals(utilisation, requests, seed=1), VirtualClock()
    runner = FakeRunner(max_num_seqs=1, clock=clock, cost_ns=lambda _d, _p: SERVICE_NS, keep_plans=False)
    feed, times = Arrivals(jobs(arrivals), clock), QueueTimes()
    Driver(Engine(runner, SchedulerConfig(1)), feed, [feed, times], max_cells=8).run()
    theory = utilisation * SERVICE_NS / (2 * (1 - utilisation))
    assert times.values == list(lindley(arrivals))
    assert np.mean(times.values) == pytest.approx(theory, rel=0.05)
