"""How large a context the first rows want, within the model's context and this machine's memory."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

from cbatch.config import ContextConfig
from cbatch.types import Job, RowFault

_PAD = 256
"""llama.cpp rounds the cells of a sequence up to a multiple of this."""


def size_context(
    config: ContextConfig, window: Sequence[Job], *, all_read: bool, fixed: bool, limit: int
) -> ContextConfig:
    """`config` sized for the rows of the look-ahead window.

    `all_read` says that there are no more rows, so that no more slots than rows are made. `fixed` keeps the cells of
    `config`; else a sequence gets what the longest row of the window needs, at most `limit` cells.
    """
    needs = [min(limit, job[1].cells_needed) for job in window if not isinstance(job, RowFault)]
    slots = max(1, min(config.max_num_seqs, len(needs))) if all_read else config.max_num_seqs
    if fixed:
        return replace(config, max_num_seqs=slots)
    return replace(config, max_num_seqs=slots, cells_per_seq=padded(max(needs, default=_PAD)))


def padded(cells: int) -> int:
    """`cells` as llama.cpp will round it."""
    return -(-cells // _PAD) * _PAD
