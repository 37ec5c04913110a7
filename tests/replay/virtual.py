"""Replays on the fake runner and a virtual clock."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator

import numpy as np

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.driver import Outcome
from cbatch.engine import Engine, FakeRunner
from cbatch.feed import Arrivals
from cbatch.feed.arrivals import Pacing
from cbatch.metrics.objectives import Objectives
from cbatch.metrics.replay import ReplayAccumulator, ReplaySummary
from cbatch.replay import Replay
from cbatch.sampling import SamplingParams
from cbatch.types import Job, Observer, Request, RowRef

MS = 1_000_000


def poisson(rate: float, count: int, *, tokens: int = 1, prompt: int = 1, seed: int = 0) -> Iterator[Job]:
    """`count` requests at `rate` a second."""
    gaps = np.random.default_rng(seed).exponential(1e9 / rate, count)
    sampling = SamplingParams(max_tokens=tokens)
    for number, arrival_ns in enumerate(np.cumsum(gaps).astype(np.int64).tolist()):
        ref = RowRef(number, str(number), f"trace:{number}", arrival_ns)
        yield ref, Request(ref.id, np.ones(prompt, np.int32), sampling, arrival_ns=arrival_ns)


def play(
    jobs: Iterable[Job],
    *,
    slots: int = 1,
    cost_ns: Callable[[int, int], int] = lambda _decodes, _prompts: 10 * MS,
    objectives: Objectives | None = None,
    until_ns: int | None = None,
    deadline_ns: int | None = None,
    observers: Iterable[Observer] = (),
    clock: VirtualClock | None = None,
    batching: str = "continuous",
    max_cells: int = 1000,
) -> tuple[ReplaySummary, Outcome]:
    """Play jobs on `slots` slots, each step at `cost_ns`."""
    clock = VirtualClock() if clock is None else clock
    runner = FakeRunner(max_num_seqs=slots, clock=clock, cost_ns=cost_ns, keep_plans=False)
    engine = Engine(runner, SchedulerConfig(slots, batching=batching))
    feed, figures = Arrivals(jobs, clock, Pacing(until_ns=until_ns)), ReplayAccumulator(objectives)
    replay = Replay(engine, feed, [figures, *observers], max_cells=max_cells, deadline_ns=deadline_ns)
    outcome = replay.run()
    engine.check_integrity()
    return figures.summary(), outcome
