"""Poisson load on the fake engine, in virtual time."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.sampling import SamplingParams
from cbatch.types import Observer, Request
from tests.metrics.factories import make_ref, no_view

STEP_NS = 1_000_000


def poisson(utilisation: float, requests: int, seed: int, *, slots: int = 1, steps: int = 1) -> npt.NDArray[np.int64]:
    """Arrivals, ns, at `utilisation` of what `slots` can do with requests of `steps` steps each."""
    gaps = np.random.default_rng(seed).exponential(STEP_NS * steps / slots / utilisation, requests)
    return np.cumsum(gaps).astype(np.int64)


def play(arrivals: npt.NDArray[np.int64], observer: Observer, *, slots: int = 1, steps: int = 1) -> None:
    """Every request takes `steps` steps of one token each; one that arrives during a step waits for its end."""
    clock = VirtualClock()
    engine = Engine(FakeRunner(max_num_seqs=slots, clock=clock), SchedulerConfig(slots, max_num_batched_tokens=slots))
    sampling, prompt = SamplingParams(max_tokens=steps), np.ones(1, np.int32)
    coming = iter([Request(str(i), prompt, sampling, arrival_ns=at) for i, at in enumerate(arrivals.tolist())])
    request = next(coming, None)
    while request is not None or engine.has_work:
        if not engine.has_work and request is not None:
            clock.advance(max(0, request.arrival_ns - clock.now_ns()))
        while request is not None and request.arrival_ns <= clock.now_ns():
            engine.add(request)
            request = next(coming, None)
        _step(engine, observer)


def _step(engine: Engine, observer: Observer) -> None:
    for output in engine.step():
        observer.finished(make_ref(int(output.id) + 1), output)
    if engine.last_step is not None:
        observer.step(engine.last_step, no_view)
