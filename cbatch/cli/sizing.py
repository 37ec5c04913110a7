"""How large a context the first rows want. Knows their lengths only, and neither the model nor the machine."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

import numpy as np

from cbatch.config import CELLS_PAD
from cbatch.types import Job, RowFault

_MOST = 0.9
"""Where memory is short, the context is for this share of the rows; it grows when one of the rest comes."""


def cells_needed(window: Iterable[Job]) -> list[int]:
    """KV cells of each sequence of the look-ahead window that can run; a row may have several."""
    requests = [job[1] for job in window if not isinstance(job, RowFault)]
    return [request.cells_needed for request in requests for _ in range(request.num_samples)]


def cells_wanted(needs: Sequence[int], limit: int) -> tuple[int, int]:
    """KV cells for the longest row, and for most rows: at most `limit`."""
    if not needs:
        return CELLS_PAD, CELLS_PAD
    most = int(np.quantile(needs, _MOST, method="higher"))
    return min(limit, max(needs)), min(limit, most)


def slots_wanted(needs: Sequence[int], slots: int, *, all_read: bool) -> int:
    """`slots`, or as many as there are rows, where they are fewer and no more come."""
    return max(1, min(slots, len(needs))) if all_read else slots
