"""Rows that kill the process which runs or tokenises them, for the job in `tests.supervise.jobs`."""

from __future__ import annotations

import time

import numpy as np

from cbatch.clock import VirtualClock
from cbatch.config import SchedulerConfig
from cbatch.engine import FakeRunner
from cbatch.engine.runner import StepPlan, StepResult
from cbatch.engine.sequence import Sequence
from cbatch.errors import Interrupted
from cbatch.sampling import SamplingParams
from cbatch.types import Request, Row, RowRef
from tests.supervise.jobs import Job, die

SAMPLING = SamplingParams(max_tokens=4)


class DeadlyRunner(FakeRunner):
    """Dies as the job says."""

    def __init__(self, job: Job) -> None:
        super().__init__(max_num_seqs=job.slots, clock=VirtualClock(), next_token=self._next, keep_plans=False)
        self._job = job
        self._aborted = False

    def run(self, plan: StepPlan) -> StepResult:
        if 0 < self._job.crowd_kills <= len(plan.decodes) + len(plan.prefills):
            die("SIGKILL")
        time.sleep(self._job.step_s)
        if self._aborted:
            raise Interrupted("stopped")
        return super().run(plan)

    def abort(self) -> None:
        self._aborted = True

    def _next(self, seq: Sequence) -> int:
        how = self._job.kills.get(seq.request.id)
        if how is not None and seq.num_output == 1:
            die(how)
        return 97


def make_runner(job: Job) -> DeadlyRunner:
    """Of the job's size."""
    return DeadlyRunner(job)


def make_scheduler_config(slots: int) -> SchedulerConfig:
    """For so many slots."""
    return SchedulerConfig(max_num_seqs=slots, share_cells=False)


def make_row(number: int) -> Row:
    """Row `number`, whose id is its number."""
    return Row(RowRef(number, str(number), f"test:{number}", 0), "hello", SAMPLING)


def tokenise(row: Row, kills: dict[str, str]) -> Request:
    """The row's request."""
    how = kills.get(row.ref.id)
    if how is not None:
        die(how)
    return Request(row.ref.id, np.ones(3, np.int32), row.sampling)
