"""The seam between scheduling and computing: a plan goes in, sampled tokens and timings come out.

A runner (llama, simulated, fake) computes what the plan says and knows nothing of queues or fairness.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from cbatch.clock import Clock
from cbatch.engine.sequence import Sequence
from cbatch.engine.snapshot import Snapshot
from cbatch.logprobs import TokenLogprobs
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


class Swap(NamedTuple):
    """Take a snapshot of a sequence that has just lost `slot`."""

    seq: Sequence
    slot: int


class Move(NamedTuple):
    """Bring a sequence's KV from slot `source`, which is freed, into the one that it has now."""

    seq: Sequence
    source: int


class Restore(NamedTuple):
    """Put the first `length` tokens of a snapshot into the sequence's slot, which is empty."""

    seq: Sequence
    snapshot: Snapshot
    length: int


class Shift(NamedTuple):
    """Drop `length` tokens of the sequence's KV after its first `keep`, and move what comes after them up to those."""

    seq: Sequence
    keep: int
    length: int


class Save(NamedTuple):
    """Take a snapshot of the sequence after its chunk, when it has `length` tokens.

    `share`: it may be of the pool's own cells, where the runner can do that.
    """

    seq: Sequence
    length: int
    share: bool = True


@dataclass(frozen=True, slots=True)
class StepPlan:
    """What runs in one step: swaps, `freed` slots lose their KV, then moves, restores, shifts, the works, and saves."""

    step: int
    freed: tuple[int, ...]
    decodes: tuple[Work, ...]
    """One token each."""
    prefills: tuple[Work, ...]
    """Chunks, in the order in which they were admitted."""
    admitted: tuple[Sequence, ...] = ()
    padding: tuple[Work, ...] = ()
    """As `decodes`, for sequences that have finished: padded batches compute them all the same."""
    swaps: tuple[Swap, ...] = ()
    preempted: tuple[Sequence, ...] = ()
    """Sequences that have lost their slots, swapped or not."""
    moves: tuple[Move, ...] = ()
    restores: tuple[Restore, ...] = ()
    shifts: tuple[Shift, ...] = ()
    saves: tuple[Save, ...] = ()
    restored_tokens: int = 0
    """Prompt tokens that `restores` bring to sequences that begin."""
    ideal_tokens: int = 0
    """Those that an unlimited prefix cache would bring them."""

    @property
    def empty(self) -> bool:
        return not (self.decodes or self.prefills)


class Sampled(NamedTuple):
    """One sampled token. `stopped` says that a stop string is complete with it."""

    seq: Sequence
    token: int
    at_ns: int
    stopped: bool = False
    logprobs: TokenLogprobs | None = None
    """Where the request asks for them."""


class PromptLogprobs(NamedTuple):
    """Of prompt tokens, from position `start` on: what the tokens before each said of it."""

    seq: Sequence
    start: int
    places: list[TokenLogprobs]


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
    """Sequences whose KV was lost, to a failed call, restore or shift: how many of their tokens are computed now."""
    saved: dict[Sequence, Snapshot] = field(default_factory=dict)
    """Of swaps and saves; without those that there was no memory for."""
    prompt_logprobs: list[PromptLogprobs] = field(default_factory=list)
    """In order of position for each sequence that has `echo`; position 0 has none."""
    calls: list[CallTiming] = field(default_factory=list)
    """In order; no two overlap."""
    sample_ns: int = 0
    restore_ns: int = 0
    move_ns: int = 0
    save_ns: int = 0
    """Swaps and saves."""

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
    cuts: bool = True
    """Whether a sequence can be cut back to any length; else a snapshot serves its exact length only."""
    holes_cost: bool = False
    """Whether decoding is slower where the slots of those that run have gaps between them."""
    shifts: bool = True
    """Whether tokens can be dropped from the middle of a sequence."""


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
        """Forget the sequence, which has ended; returns its text, without end token and stop string."""
        ...

    def grow(self, cells_per_seq: int) -> Capacity:
        """With no sequence running, make room for one of `cells_per_seq` cells if that can be.

        Where the capacity comes back changed, all KV was dropped.
        """
        ...

    def num_tokens(self, slot: int) -> int:
        """Tokens whose KV the slot holds, as the memory has it; -1 where some that the next one needs are gone."""
        ...

    def abort(self) -> None:
        """Make `run` return as soon as it can."""
        ...
