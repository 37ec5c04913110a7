"""How large a context the first rows want. Knows their lengths only, and neither the model nor the machine."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from cbatch.config import CELLS_PAD
from cbatch.types import Job, RowFault

_MOST = 0.9
"""Where memory is short, the context is for this share of the rows; it grows when one of the rest comes."""


def cells_wanted(window: Sequence[Job], limit: int) -> tuple[int, int]:
    """KV cells for the longest row of the look-ahead window, and for most rows: at most `limit`."""
    needs = [min(limit, job[1].cells_needed) for job in window if not isinstance(job, RowFault)]
    if not needs:
        return CELLS_PAD, CELLS_PAD
    return max(needs), int(np.quantile(needs, _MOST, method="higher"))


def slots_wanted(window: Sequence[Job], slots: int, *, all_read: bool) -> int:
    """`slots`, or as many as there are rows, where they are fewer and no more come."""
    rows = sum(not isinstance(job, RowFault) for job in window)
    return max(1, min(slots, rows)) if all_read else slots
