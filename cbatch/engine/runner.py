"""The seam between scheduling and computing: a plan goes in, sampled tokens and timings come out.

A runner (llama, simulated, fake) computes what the plan says and knows nothing of queues or fairness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cbatch.clock import Clock
from cbatch.engine.sequence import Sequence
from cbatch.types import Tokens


class Work(NamedTuple):
    """Compute `length` tokens of `seq` from position `start`; where that reaches its end, sample the next token."""

    seq: Sequence
    start: int
    length: int

    @property
    def samples(self) -> bool:
        return self.start + self.length == self.seq.num_tokens

    def tokens(self) -> Tokens:
        """int32[length], the token ids to compute."""
        return self.seq.tokens(self.start, self.start + self.length)


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What runs in one step. The KV of `freed` slots is dropped first."""

    step: int
    freed: tuple[int, ...]
    decodes: tuple[Work, ...]
    """One token each."""
    prefills: tuple[Work, ...]
    """Chunks, in the order in which they were admitted."""
    admitted: int = 0
    padding: tuple[Work, ...] = ()
    """As `decodes`, for sequences that have finished: padded batches compute them all the same."""

    @property
    def empty(self) -> bool:
        return not (self.decodes or self.prefills)


class Sampled(NamedTuple):
    """One sampled token. `text` is what became printable with it; `stopped` says that a stop string was matched."""

    seq: Sequence
    token: int
    at_ns: int
    text: str = ""
    stopped: bool = False


@dataclass(frozen=True, slots=True)
class Failed:
    """A sequence that can't go on. Its neighbours can."""

    seq: Sequence
    message: str


class CallTiming(NamedTuple):
    """One native decode call."""

    kind: str
    """`decode`, `prefill`, or `mixed`."""
    start_ns: int
    end_ns: int
    works: tuple[Work, ...]
    """What it computed; nothing if it failed."""


@dataclass(slots=True)
class StepResult:
    """What a step gave. A planned sequence is in `sampled`, `failed` or `rewound`, or computed its chunk silently."""

    sampled: list[Sampled] = field(default_factory=list)
    failed: list[Failed] = field(default_factory=list)
    rewound: dict[Sequence, int] = field(default_factory=dict)
    """Sequences whose KV was lost to a failed call: how many of their tokens are computed now."""
    calls: list[CallTiming] = field(default_factory=list)
    """In order; no two overlap."""
    sample_ns: int = 0

    def call_ns(self, kind: str) -> int:
        """Time inside calls of a kind."""
        return sum(call.end_ns - call.start_ns for call in self.calls if call.kind == kind)


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a runner's KV memory holds."""

    max_num_seqs: int
    cells_per_seq: int
    """Most cells one sequence may fill."""
    total_cells: int
    """Of all slots together; below max_num_seqs * cells_per_seq where slots share a pool."""
    max_batched_tokens: int = 2**31 - 1
    """Most tokens of a plan."""


class Runner(Protocol):
    """Computes plans. One thread calls it; `abort` may be called from any."""

    clock: Clock
    """Of the times in results."""

    @property
    def capacity(self) -> Capacity: ...

    def run(self, plan: StepPlan) -> StepResult:
        """Compute the plan. Raises `EngineError` only when no sequence can go on, `Interrupted` after `abort`."""
        ...

    def finish(self, seq: Sequence) -> str:
        """Forget the sequence; returns the text that was held back for a stop string or an unfinished character."""
        ...

    def grow(self, cells_per_seq: int) -> Capacity:
        """With no sequence running, make room for one of `cells_per_seq` cells if that can be.

        Where the capacity comes back changed, all KV was dropped.
        """
        ...

    def abort(self) -> None:
        """Make `run` return as soon as it can."""
        ...
