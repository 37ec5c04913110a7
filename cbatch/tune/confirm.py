"""Two ways to run the same rows, on the real engine in turns: whether the one that was chosen is the faster one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import dataclass
from statistics import median

from cbatch.config import SchedulerConfig
from cbatch.engine import Engine
from cbatch.errors import EngineError
from cbatch.tune.result import Confirmed
from cbatch.tune.setting import Setting
from cbatch.tune.workbench import Workbench
from cbatch.types import Request

PAIRS = 3


@dataclass(frozen=True, slots=True)
class Way:
    """How to run rows."""

    setting: Setting
    slots: int
    scheduler: SchedulerConfig


def run_rows(workbench: Workbench, way: Way, requests: Sequence[Request]) -> float:
    """Seconds from the first step to the last. Raises `EngineError` where a row fails."""
    cells = max(request.cells_needed for request in requests)
    with closing(workbench.runner(way.setting, way.slots, cells)) as runner:
        engine = Engine(runner, way.scheduler)
        begun = workbench.clock.now_ns()
        for request in requests:
            engine.add(request)
        for output in engine:
            if output.error is not None:
                raise EngineError(output.error)
        return (workbench.clock.now_ns() - begun) / 1e9


def confirm(
    usual: Way,
    chosen: Way,
    requests: Sequence[Request],
    run: Callable[[Way, Sequence[Request]], float],
    *,
    predicted_s: float,
    time_left: Callable[[], bool],
) -> Confirmed:
    """One pair at least, and more while there is time; who goes first alternates."""
    times: list[tuple[float, float]] = []
    while not times or (len(times) < PAIRS and time_left()):
        if len(times) % 2:
            ours = run(chosen, requests)
            times.append((run(usual, requests), ours))
        else:
            theirs = run(usual, requests)
            times.append((theirs, run(chosen, requests)))
    return Confirmed(
        ratios=tuple(theirs / ours for theirs, ours in times),
        rows=len(requests),
        seconds=median(ours for _, ours in times),
        predicted_s=predicted_s,
    )
