"""The requests of a replay as columns, to compute on. Knows no percentiles."""

from __future__ import annotations

from array import array
from dataclasses import fields

import numpy as np
import numpy.typing as npt

from cbatch.metrics.request import RequestMetrics, is_completed
from cbatch.types import RequestOutput, RowFault

Column = npt.NDArray[np.float64]
METRICS = tuple(f.name for f in fields(RequestMetrics))


class RequestTable:
    """One row a request, 96 bytes each; float64 holds times below 2**53 ns (104 days) exactly.

    Columns: `arrival_ns`, `admitted_ns`, `finished_ns`, `completed` (1 or 0), `prompt_tokens`, `output_tokens`, and the
    fields of `RequestMetrics`; NaN where there is no value. A row that couldn't be run only has an arrival.
    """

    def __init__(self) -> None:
        names = ("arrival_ns", "admitted_ns", "finished_ns", "completed", "prompt_tokens", "output_tokens", *METRICS)
        self._columns = {name: array("d") for name in names}

    def add(self, output: RequestOutput) -> None:
        """A request that ended, well or not."""
        metrics = RequestMetrics.of(output)
        self._append(
            arrival_ns=output.request.arrival_ns,
            admitted_ns=output.admitted_ns,
            finished_ns=output.finished_ns,
            completed=is_completed(output),
            prompt_tokens=output.request.prompt.size,
            output_tokens=output.token_ids.size,
            **{name: getattr(metrics, name) for name in METRICS},
        )

    def add_fault(self, fault: RowFault) -> None:
        """A row that couldn't be run at all."""
        self._append(arrival_ns=fault.ref.arrival_ns, completed=False)

    def _append(self, **values: float | None) -> None:
        for name, column in self._columns.items():
            value = values.get(name)
            column.append(np.nan if value is None else value)

    def __len__(self) -> int:
        return len(self._columns["arrival_ns"])

    def column(self, name: str) -> Column:
        """A copy, float64[n]."""
        return np.array(self._columns[name], dtype=np.float64)

    @property
    def completed(self) -> npt.NDArray[np.bool_]:
        """Which requests completed, bool[n]."""
        return self.column("completed").astype(np.bool_)

    @property
    def left_queue_ns(self) -> Column:
        """When each request stopped waiting: got a slot, or ended without one (at once, where it couldn't be run)."""
        admitted = self.column("admitted_ns")
        return np.where(np.isnan(admitted), self.left_system_ns, admitted)

    @property
    def left_system_ns(self) -> Column:
        """When each request ended; at its arrival, where it couldn't be run."""
        finished = self.column("finished_ns")
        return np.where(np.isnan(finished), self.column("arrival_ns"), finished)


def present(column: Column) -> Column:
    """Without NaN."""
    return column[~np.isnan(column)]
