"""The nouns that every layer shares. Knows nothing of llama.cpp, files or terminals.

Life of a row:

    Row | RowFault (inputs)  ->  Request (tokenised)  ->  RequestOutput (engine)  ->  outputs, metrics, report
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from enum import Enum
from typing import Any, NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from cbatch.errors import ParameterError
from cbatch.logprobs import Logprobs
from cbatch.sampling import SamplingParams

Tokens = npt.NDArray[np.int32]


class FinishReason(str, Enum):
    """Why a generation ended."""

    STOP = "stop"  # end-of-generation token, stop token or stop string
    LENGTH = "length"  # max_tokens reached
    ERROR = "error"
    CANCELLED = "cancelled"


class RowKind(str, Enum):
    """What the row asked for, which decides whether the chat template applies."""

    PROMPT = "prompt"  # a plain prompt: a user message where the model has a chat template
    CHAT = "chat"  # messages, or /v1/chat/completions
    COMPLETION = "completion"  # /v1/completions: raw, always


@dataclass(frozen=True, slots=True)
class RowRef:
    """What results need to know of the input row that a request came from."""

    number: int
    """1-based, counted over all inputs of the job."""
    id: str
    """`id` or `custom_id` of the row, else its number."""
    where: str
    """For messages: `prompts.jsonl:17`."""
    arrival_ns: int
    """When the row was read, on the run's clock."""
    kind: RowKind = RowKind.PROMPT
    carried: Mapping[str, Any] = field(default_factory=dict)
    """The row's unknown fields, JSON values, handed through to the results."""


@dataclass(frozen=True, slots=True)
class Row:
    """One well-formed input row, before tokenisation."""

    ref: RowRef
    content: str | tuple[Mapping[str, Any], ...]
    """The prompt, or for `CHAT` the messages, each with `role` and (mostly) `content` as a string."""
    sampling: SamplingParams
    priority: int = 0

    @property
    def kind(self) -> RowKind:
        return self.ref.kind


@dataclass(frozen=True, slots=True)
class RowFault:
    """A row that can't be run, or that failed; it ends as an error row and costs no other row anything."""

    ref: RowRef
    code: str
    """Machine-readable: `invalid_json`, `duplicate_id`, `empty_prompt`, `prompt_too_long`, ..."""
    message: str
    """What is wrong, with the value, and the fix."""


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One generation to run. `prompt` may be given as any sequence of token ids; it becomes int32[n], n >= 1."""

    id: str
    prompt: Tokens
    sampling: SamplingParams = field(default_factory=SamplingParams)
    priority: int = 0
    """Lower runs earlier, as in vLLM; equal priorities run in order of arrival."""
    arrival_ns: int = 0
    enqueued_ns: int | None = None
    """When it was handed over, where that was before the engine's thread took it in."""
    end_tokens: frozenset[int] = frozenset()
    """The model's end-of-generation tokens; empty with `ignore_eos`. They and `stop_token_ids` finish with `STOP`."""
    stream_seed: int = 0
    """64 bits that determine the request's random numbers."""
    fork_seeds: tuple[int, ...] = ()
    """As `stream_seed`, for each further sample of the same prompt."""
    max_cells: int | None = None
    """KV cells that it may fill: when it outgrows them, tokens after the first `keep` are dropped. None: as needed."""
    keep: int = 0
    """Of these, the first tokens that are never dropped: at most half."""
    truncated_tokens: int = 0
    """Tokens that were taken out of its prompt, which the context couldn't hold."""

    def __post_init__(self) -> None:
        prompt = np.ascontiguousarray(self.prompt, dtype=np.int32)
        if prompt.ndim != 1 or prompt.size == 0:
            raise ParameterError(
                f"request {self.id!r} has a prompt of shape {prompt.shape}: give at least one token id"
            )
        object.__setattr__(self, "prompt", prompt)
        if self.max_cells is not None and not (prompt.size <= self.max_cells and 0 <= self.keep <= self.max_cells // 2):
            raise ParameterError(
                f"request {self.id!r} has {prompt.size} prompt tokens, keeps {self.keep}, and may fill "
                f"{self.max_cells} KV cells: they have to hold its prompt, and it may keep half of them at most"
            )

    def is_end(self, token: int) -> bool:
        """Whether sampling `token` finishes the request."""
        return token in self.end_tokens or token in self.sampling.stop_token_ids

    @property
    def num_samples(self) -> int:
        """Sequences that it takes."""
        return 1 + len(self.fork_seeds)

    @property
    def scores_prompt(self) -> bool:
        """Whether log-probabilities of the prompt's own tokens are wanted, so that each must be computed."""
        return self.sampling.echo and self.sampling.logprobs is not None

    @property
    def cells_needed(self) -> int:
        """KV cells that a sequence of it fills at most."""
        return self.cells_unbounded if self.max_cells is None else min(self.cells_unbounded, self.max_cells)

    @property
    def cells_unbounded(self) -> int:
        """KV cells that it would fill if none of its tokens were dropped: all but the last sampled one are computed."""
        return int(self.prompt.size) + self.sampling.max_tokens - 1


def sample_id(request_id: str, sample: int) -> str:
    """Of a request's sample, from 0: records and views name sequences so."""
    return f"{request_id}#{sample}" if sample else request_id


class TimeSplit(NamedTuple):
    """Where the time of a request went after it got a slot, ns. What no part names (sampling, scheduling) is left over.

    A call that computes prompt chunks and decodes together counts as either in proportion to its tokens.
    """

    prefill_ns: int = 0
    """Inside calls that computed its prompt."""
    decode_ns: int = 0
    """Inside calls that computed its output tokens."""
    others_prefill_ns: int = 0
    """Inside calls that computed prompts of others, while it waited for them."""
    others_decode_ns: int = 0
    """Inside calls that computed output tokens of others, while it waited for them."""
    preempted_ns: int = 0
    """Without a slot, after it had had one."""


@dataclass(frozen=True, slots=True, eq=False)
class RequestOutput:
    """A finished request: what was generated, and when (ns on the run's clock; None where it never happened)."""

    request: Request
    token_ids: Tokens
    """Every sampled token, int32[n], the end token included."""
    text: str
    """Detokenised output without end token and stop string."""
    finish_reason: FinishReason
    error: str | None
    slot: int | None
    """The slot it ran in (the last one)."""
    enqueued_ns: int
    admitted_ns: int | None
    first_token_ns: int | None
    token_ns: npt.NDArray[np.int64]
    """When each token was sampled, int64[n]."""
    finished_ns: int
    times: TimeSplit = field(default_factory=TimeSplit)
    cached_tokens: int = 0
    """Prompt tokens that were restored and not computed, when it first ran."""
    preemptions: int = 0
    """How often it gave its slot to others."""
    dropped_tokens: int = 0
    """Tokens of its prompt or output that it lost sight of when it outgrew its context."""
    logprobs: Logprobs | None = None
    """Of the n output tokens, where they were asked for."""
    prompt_logprobs: Logprobs | None = None
    """Of the prompt's tokens, with `echo`."""
    sample: int = 0
    """Which of the request's samples, from 0."""
    others: tuple[RequestOutput, ...] = ()
    """The request's further samples, best first where `best_of` chose them, else in order."""

    @property
    def id(self) -> str:
        return self.request.id


class Computed(NamedTuple):
    """What one native call computed of one sequence."""

    id: str
    slot: int
    phase: str
    """`prefill` or `decode`."""
    start: int
    """Position of the first token."""
    length: int
    """Tokens."""


class CallRecord(NamedTuple):
    """One native decode call of a step. One that failed has computed nothing."""

    kind: str
    """`decode`, `prefill`, or `mixed`."""
    start_ns: int
    end_ns: int
    computed: tuple[Computed, ...]


@dataclass(frozen=True, slots=True)
class StepRecord:
    """One engine step: what ran and where the time went. A row of steps.parquet."""

    step: int
    start_ns: int
    end_ns: int
    schedule_ns: int
    """Scheduler: planning and updating."""
    decode_call_ns: int
    """Inside native decode calls that held one token of each of several running sequences."""
    prefill_call_ns: int
    """Inside native decode calls that held prompt chunks."""
    mixed_call_ns: int
    """Inside native decode calls that held both (unified KV)."""
    sample_ns: int
    """Choosing tokens, detokenising, matching stop strings."""
    calls: int
    """Native decode calls made."""
    admitted: int
    """Sequences that got a slot in this step."""
    finished: int
    """Sequences that ended in this step, those that failed in it included."""
    failed: int
    decode_seqs: int
    """Sequences that computed one token to extend their output."""
    padding_seqs: int
    """Finished sequences that were computed all the same, as padded batches do."""
    prefill_seqs: int
    prefill_tokens: int
    output_tokens: int
    slots_busy: int
    """While the step ran."""
    slots_total: int
    waiting: int
    """Requests without a slot while the step ran."""
    kv_used_cells: int
    """At the end of the step, before finished sequences give theirs back."""
    kv_reserved_cells: int
    kv_total_cells: int
    kv_shared_cells: int = 0
    """Of `kv_used_cells`, those with a prompt token that others hold at the same place: used - shared would do."""
    kv_static_cells: int = 0
    """What static reservation would hold for the sequences that run: each the cells of a whole slot."""
    preempted: int = 0
    """Sequences that lost their slot to others."""
    moved: int = 0
    """Sequences that went into another slot, so that no holes are left."""
    restored_tokens: int = 0
    """Prompt tokens restored from snapshots and so not computed."""
    ideal_tokens: int = 0
    """Prompt tokens of the sequences that began in this step which an unlimited prefix cache would have restored."""
    restore_ns: int = 0
    """Putting snapshots into slots."""
    save_ns: int = 0
    """Taking snapshots."""
    call_log: tuple[CallRecord, ...] = ()
    """The calls, in order. Not in steps.parquet."""

    @property
    def llama_ns(self) -> int:
        """Time inside llama_decode."""
        return self.decode_call_ns + self.prefill_call_ns + self.mixed_call_ns


@dataclass(frozen=True, slots=True)
class SlotView:
    """One busy slot, for display."""

    slot: int
    id: str
    phase: str
    """`prefill` or `decode`."""
    done: int
    """Prompt tokens computed, or output tokens sampled."""
    total: int
    """Prompt tokens, or max_tokens."""


@dataclass(frozen=True, slots=True)
class EngineView:
    """The engine between two steps, for display."""

    slots: tuple[SlotView, ...]
    """Busy slots, ascending."""
    slots_total: int
    waiting: int
    kv_used_cells: int
    kv_reserved_cells: int
    kv_total_cells: int


class Observer(Protocol):
    """Hears of everything the driver's loop does, in order, on the loop's thread."""

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        """A step ended. `view` is built only when called."""
        ...

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        """A request ended, well or not."""
        ...

    def fault(self, fault: RowFault) -> None:
        """A row could not be run at all."""
        ...


Job = tuple[RowRef, Request] | RowFault
"""What the driver is fed with: a row ready to run, or one that can't be."""

Messages = Sequence[Mapping[str, Any]]
"""Of a chat, oldest first; each has `role`, and mostly `content` as a string."""
