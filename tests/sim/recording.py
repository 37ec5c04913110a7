"""A run whose costs are known, recorded as cbatch records runs: what the cost model is to be fitted to."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq

from cbatch.clock import VirtualClock
from cbatch.config import ContextConfig, SchedulerConfig
from cbatch.driver import Driver
from cbatch.engine import Engine
from cbatch.feed import Arrivals
from cbatch.sim.costs import StepCostModel
from cbatch.sim.runner import SimulatedRunner
from cbatch.types import EngineView, Request, RequestOutput, RowFault, RowRef, StepRecord

COSTS = StepCostModel(
    knots=(0, 1, 4, 16, 256),
    weights_ns=(2e6, 5e6, 8e6, 20e6, 140e6),
    output_ns=1e6,
    single_ns=4e3,
    thin_ns=4e3,
    thick_ns=1e3,
    step_ns=2e5,
    running_ns=1e4,
    sampling_ns=1e5,
    sampled_ns=2e4,
    restore_ns=3e3,
    save_ns=5e3,
)
"""Made up, of the size of a small model's on a CPU."""


class Recorder:
    """An observer that keeps everything."""

    def __init__(self) -> None:
        self.steps: list[StepRecord] = []
        self.outputs: list[tuple[RowRef, RequestOutput]] = []

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        self.steps.append(record)

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self.outputs.append((ref, output))

    def fault(self, fault: RowFault) -> None:
        raise AssertionError(fault.message)

    def write(self, directory: Path, **told: Any) -> Path:
        """steps.parquet, requests.parquet, and `told` as run.json."""
        directory.mkdir(parents=True, exist_ok=True)
        names = [f.name for f in fields(StepRecord) if f.name != "call_log"]
        steps = [{name: getattr(step, name) for name in names} for step in self.steps]
        pq.write_table(pa.Table.from_pylist(steps), directory / "steps.parquet")
        rows = [_row(ref, output) for ref, output in self.outputs]
        pq.write_table(pa.Table.from_pylist(rows), directory / "requests.parquet")
        (directory / "run.json").write_text(json.dumps(told), "utf-8")
        return directory


def _row(ref: RowRef, output: RequestOutput) -> dict[str, Any]:
    return {
        "row": ref.number,
        "sample": output.sample,
        "arrival_ns": output.request.arrival_ns,
        "admitted_ns": output.admitted_ns,
        "token_ns": output.token_ns.tolist(),
        "prompt_tokens": int(output.request.prompt.size),
        "cached_tokens": output.cached_tokens,
        "slot": output.slot,
        "priority": output.request.priority,
        "finished_ns": output.finished_ns,
        "preemptions": output.preemptions,
    }


def play(
    requests: Iterable[Request],
    *,
    costs: StepCostModel = COSTS,
    context: ContextConfig | None = None,
    check: bool = False,
    **scheduler: Any,
) -> Recorder:
    """Everything that happens when the requests, in order of arrival, are run. `check`: integrity after each step."""
    config = context if context is not None else ContextConfig(max_num_seqs=8, cells_per_seq=1024)
    clock = VirtualClock()
    runner = SimulatedRunner(costs, config, clock=clock, bytes_per_token=100.0, parking=4)
    engine = Engine(runner, SchedulerConfig(**{"max_num_seqs": config.max_num_seqs, **scheduler}))
    jobs = ((RowRef(i, each.id, each.id, each.arrival_ns), each) for i, each in enumerate(requests, 1))
    recorder = Recorder()
    checks = [_Integrity(engine)] if check else []
    feed = Arrivals(jobs, clock)
    Driver(engine, feed, [feed, recorder, *checks], max_cells=1 << 20).run()
    return recorder


class _Integrity(Recorder):
    def __init__(self, engine: Engine) -> None:
        super().__init__()
        self._engine = engine

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        self._engine.check_integrity()
