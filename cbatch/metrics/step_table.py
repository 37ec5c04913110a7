"""The steps of a replay as columns, to compute on. Knows no figures."""

from __future__ import annotations

from array import array

import numpy as np
import numpy.typing as npt

from cbatch.types import StepRecord

_NAMES = ("start_ns", "end_ns", "slots_busy", "finished", "output_tokens")


class StepTable:
    """One row a step, 40 bytes each. Columns are `start_ns`, `end_ns`, `slots_busy`, `finished`, `output_tokens`."""

    def __init__(self) -> None:
        self._columns = {name: array("q") for name in _NAMES}

    def add(self, record: StepRecord) -> None:
        """Take the next step; steps come in order."""
        for name, column in self._columns.items():
            column.append(getattr(record, name))

    def column(self, name: str) -> npt.NDArray[np.int64]:
        """A copy, int64[n]."""
        return np.array(self._columns[name], dtype=np.int64)
