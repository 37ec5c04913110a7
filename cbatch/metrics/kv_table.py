"""The KV memory of a run, and what other ways of giving it out would have held. From step records alone.

As the paged-attention literature counts it (Kwon et al., SOSP 2023, figures 1 and 2). Of what static reservation holds,
`pooled` is what holds tokens; `per_slot - pooled` is reserved for tokens that may come; `static - per_slot` is internal
fragmentation, which no request could ever have filled. There is no external fragmentation: cells are given out singly.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from cbatch.metrics.steps import ratio
from cbatch.types import StepRecord

WAYS = ("static", "per_slot", "pooled", "shared")
"""`static`: the cells of a whole slot for each running sequence, as before paging.
`per_slot`: what was reserved on admission (prompt + max_tokens - 1, or less where the pool is overcommitted).
`pooled`: a cell for each token there is. `shared`: the same, but one for a token that several sequences share."""


@dataclass(frozen=True, slots=True)
class KVWay:
    """One way of giving out the memory."""

    peak_cells: int
    """Most in a step."""
    mean_cells: float | None
    """Time-weighted, over the steps."""
    tokens_per_cell: float | None
    """Tokens that running sequences have computed / cells, both time-weighted: the share of cells that hold tokens;
    above 1 where sequences share cells."""
    sequences: float | None
    """Sequences that the run's memory would hold, were they as those that ran: total / (mean cells / mean running)."""


@dataclass(frozen=True, slots=True)
class KVTable:
    """The four ways beside each other."""

    total_cells: int
    """The memory there was, in the last step."""
    bytes_per_token: float | None
    """K and V of one token over all layers: the bytes of a cell."""
    ways: Mapping[str, KVWay]
    """By name, in the order of `WAYS`."""

    def bytes_of(self, cells: float | None) -> float | None:
        """None where the cells or their size aren't known."""
        return None if cells is None or self.bytes_per_token is None else cells * self.bytes_per_token

    def to_dict(self) -> dict[str, object]:
        """JSON-ready, with units in the names."""
        return {
            "total_cells": self.total_cells,
            "total_bytes": self.bytes_of(self.total_cells),
            "bytes_per_token": self.bytes_per_token,
            **{name: self._way(way) for name, way in self.ways.items()},
        }

    def _way(self, way: KVWay) -> dict[str, float | None]:
        return {
            "peak_cells": way.peak_cells,
            "peak_bytes": self.bytes_of(way.peak_cells),
            "mean_cells": way.mean_cells,
            "mean_bytes": self.bytes_of(way.mean_cells),
            "tokens_per_cell": way.tokens_per_cell,
            "sequences": way.sequences,
        }


class KVTotals:
    """Sums over step records, in constant memory."""

    def __init__(self) -> None:
        self._peaks = dict.fromkeys(WAYS, 0)
        self._cell_ns = dict.fromkeys(WAYS, 0)
        self._sequence_ns = 0
        self._ns = 0
        self._total_cells = 0

    def add(self, record: StepRecord) -> None:
        """Take a step."""
        span = record.end_ns - record.start_ns
        for name, cells in _cells(record).items():
            self._peaks[name] = max(self._peaks[name], cells)
            self._cell_ns[name] += cells * span
        self._sequence_ns += record.slots_busy * span
        self._ns += span
        self._total_cells = record.kv_total_cells

    def table(self, bytes_per_token: float | None = None) -> KVTable:
        """The run so far."""
        return KVTable(self._total_cells, bytes_per_token, {name: self._way(name) for name in WAYS})

    def _way(self, name: str) -> KVWay:
        cell_ns = self._cell_ns[name]
        return KVWay(
            peak_cells=self._peaks[name],
            mean_cells=ratio(cell_ns, self._ns),
            tokens_per_cell=ratio(self._cell_ns["pooled"], cell_ns),
            sequences=ratio(self._total_cells * self._sequence_ns, cell_ns),
        )


def _cells(record: StepRecord) -> dict[str, int]:
    """Of each way in one step."""
    return {
        "static": record.kv_static_cells,
        "per_slot": record.kv_reserved_cells,
        "pooled": record.kv_used_cells,
        "shared": record.kv_used_cells - record.kv_shared_cells,
    }
