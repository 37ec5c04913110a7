"""What to tune for: rows that stand for the job, and what counts."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

from cbatch.metrics import Objectives
from cbatch.tune.mix import as_run
from cbatch.types import Request

_LEAST_ROUNDS, _MOST_ROWS = 3, 500
"""Rows for each slot, and rows in all."""
_TOKENS = 20_000
"""Output tokens of the rows that are simulated, about."""


@dataclass(frozen=True, slots=True)
class Goal:
    """A job, and how it is to be served."""

    requests: Sequence[Request]
    """Its rows or some of them, one at least; each goes on to its max_tokens."""
    limits: Mapping[str, int] = field(default_factory=dict)
    """By request id: the max_tokens that a run is given, where the model ends the row before, and nobody knows when."""
    shared_tokens: int = 0
    """How many of all their prompt tokens others begin with too."""
    made_up: bool = False
    """Whether they are only as long as the job's, with random prompts."""
    all_rows: bool = False
    """Whether the job has no more rows."""
    objectives: Objectives = field(default_factory=Objectives)
    rate: float | None = None
    """Requests a second; with objectives."""
    most_stall_ns: float | None = None
    """How long a step may last."""
    allow_kv_quant: bool = False

    @property
    def for_throughput(self) -> bool:
        """And nothing else."""
        return self.rate is None and self.most_stall_ns is None

    def sample(self, slots: int) -> list[Request]:
        """Rows from all over, enough to tell how the job goes with so many slots, and few enough to simulate often."""
        outputs = sum(request.sampling.max_tokens for request in self.requests) / len(self.requests)
        return spread(self.requests, min(_MOST_ROWS, max(_LEAST_ROUNDS * slots, int(_TOKENS / outputs))))

    @property
    def cells(self) -> int:
        """KV cells that a run needs for the longest row."""
        return max(as_run(request, self.limits).cells_needed for request in self.requests)


def spread(requests: Sequence[Request], count: int) -> list[Request]:
    """At most so many of them, from all over."""
    few = min(count, len(requests))
    return [requests[i * len(requests) // few] for i in range(few)]
