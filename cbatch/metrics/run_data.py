"""What a comparison needs of one run, gathered while it goes on. Knows no variant and no statistics.

Keeps about 350 bytes a request, 24 a step, 12 an output token of completed requests, and the prompts until it ends.
"""

from __future__ import annotations

from array import array
from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from cbatch.metrics.bound import StepCosts, unshared_tokens
from cbatch.metrics.objectives import Objectives
from cbatch.metrics.replay import ReplayAccumulator, ReplaySummary
from cbatch.metrics.request import is_completed, itl
from cbatch.metrics.table import Column
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord, Tokens

FROM_TABLE = ("arrival_ns", "prompt_tokens", "output_tokens", "queue_ns", "ttft_ns", "tpot_ns", "e2e_ns")


@dataclass(frozen=True, slots=True, eq=False)
class RunData:
    """One run of one variant: n requests, rows that couldn't be run included."""

    summary: ReplaySummary
    rows: npt.NDArray[np.int64]
    """Their row numbers, ascending, each once, int64[n]: the same request has the same in every run."""
    completed: npt.NDArray[np.bool_]
    """Which completed, bool[n]."""
    columns: Mapping[str, Column]
    """`arrival_ns`, `prompt_tokens`, `output_tokens`, `queue_ns`, `ttft_ns`, `tpot_ns`, `e2e_ns`, `max_itl_ns` (the
    longest gap between two tokens of the request), and `unshared_tokens` (of its prompt, those that have to be computed
    though every prompt that came earlier is kept), each float64[n], NaN where there is no value."""
    idle_slot_steps: int
    """Steps x slots - busy slot-steps."""
    outputs: Mapping[str, Tokens]
    """Token ids of completed requests, by request id; of several samples, the first one's."""
    costs: StepCosts

    def metric(self, name: str, rows: npt.NDArray[np.int64]) -> Column:
        """A column for the given row numbers, NaN for what isn't there or hasn't completed."""
        found = np.full(rows.size, np.nan)
        _, ours, theirs = np.intersect1d(self.rows[self.completed], rows, assume_unique=True, return_indices=True)
        found[theirs] = self.columns[name][self.completed][ours]
        return found

    def has_completed(self, rows: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
        """Which of the given row numbers completed, bool[len(rows)]."""
        return np.isin(rows, self.rows[self.completed])


class RunCollector:
    """An `Observer` of one run. `closed_loop`: requests come as others are served."""

    def __init__(self, objectives: Objectives | None = None, *, closed_loop: bool = False) -> None:
        self._replay = ReplayAccumulator(objectives, closed_loop=closed_loop)
        self._rows = array("q")
        self._max_itl_ns = array("d")
        self._prompts: list[Tokens] = []
        self._idle_slot_steps = 0
        self._outputs: dict[str, Tokens] = {}
        self._costs = StepCosts()

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        self._replay.step(record, view)
        self._costs.add(record)
        self._idle_slot_steps += record.slots_total - record.slots_busy

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        self._replay.finished(ref, output)
        gaps = itl(output.token_ns)
        self._note(ref, float(gaps.max()) if gaps.size else np.nan, output.request.prompt)
        if is_completed(output):
            self._outputs[output.id] = output.token_ids

    def fault(self, fault: RowFault) -> None:
        self._replay.fault(fault)
        self._note(fault.ref, np.nan, np.empty(0, np.int32))

    def _note(self, ref: RowRef, max_itl_ns: float, prompt: Tokens) -> None:
        self._rows.append(ref.number)
        self._max_itl_ns.append(max_itl_ns)
        self._prompts.append(prompt)

    def _unshared_tokens(self, arrival_ns: Column) -> Column:
        by_arrival = np.argsort(arrival_ns, kind="stable")
        found = np.empty(by_arrival.size)
        found[by_arrival] = unshared_tokens([self._prompts[i] for i in by_arrival])
        return found

    def data(self) -> RunData:
        """The run so far."""
        rows = np.array(self._rows, dtype=np.int64)
        order = np.argsort(rows)
        requests = self._replay.requests
        columns = {name: requests.column(name) for name in FROM_TABLE}
        columns["max_itl_ns"] = np.array(self._max_itl_ns, dtype=np.float64)
        columns["unshared_tokens"] = self._unshared_tokens(columns["arrival_ns"])
        return RunData(
            summary=self._replay.summary(),
            rows=rows[order],
            completed=requests.completed[order],
            columns={name: column[order] for name, column in columns.items()},
            idle_slot_steps=self._idle_slot_steps,
            outputs=dict(self._outputs),
            costs=self._costs,
        )
