"""The mutable state of one generation. Knows no text, no slots' KV, no clock.

Its context is its prompt and output without the tokens that it had to drop. Positions, and how much is computed, count
in the context; they are those of its KV.
"""

from __future__ import annotations

import numpy as np

from cbatch.engine.snapshot import Snapshot
from cbatch.logprobs import Logprobs, TokenLogprobs
from cbatch.types import FinishReason, Request, RequestOutput, TimeSplit, Tokens, sample_id


class Sequence:
    """One running or waiting generation: prompt and output tokens, and how many of its context are computed.

    Invariant: 0 <= num_computed <= num_tokens; the next token is sampled when they meet.
    """

    __slots__ = (
        "_output",
        "admitted_ns",
        "cached_tokens",
        "enqueued_ns",
        "error",
        "finish_reason",
        "finished_ns",
        "known_tokens",
        "logprobs",
        "num_computed",
        "num_dropped",
        "num_prompt",
        "num_tokens",
        "preemptions",
        "prompt_logprobs",
        "request",
        "sample",
        "slot",
        "snapshot",
        "token_ns",
    )

    def __init__(self, request: Request, enqueued_ns: int, sample: int = 0) -> None:
        self.request = request
        self.sample = sample
        """Which of the request's samples, from 0."""
        self.num_prompt = int(request.prompt.size)
        self.num_computed = 0
        self.num_dropped = 0
        """Tokens after the request's `keep` that are no longer in the context."""
        self.num_tokens = self.num_prompt
        """Of its context."""
        self.slot: int | None = None
        self.snapshot: Snapshot | None = None
        """Of its KV, while it waits after having lost its slot."""
        self.cached_tokens = 0
        """Prompt tokens restored when it first ran."""
        self.known_tokens = 0
        """First prompt tokens that were those of an earlier prompt when it was enqueued."""
        self.preemptions = 0
        self.logprobs: list[TokenLogprobs] = []
        self.prompt_logprobs: list[TokenLogprobs] = []
        self.token_ns: list[int] = []
        self.enqueued_ns = enqueued_ns
        self.admitted_ns: int | None = None
        self.finished_ns: int | None = None
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self._output: list[int] = []

    @property
    def id(self) -> str:
        """The request's, with the number of a further sample."""
        return sample_id(self.request.id, self.sample)

    @property
    def stream_seed(self) -> int:
        """64 bits that determine its random numbers."""
        return self.request.fork_seeds[self.sample - 1] if self.sample else self.request.stream_seed

    @property
    def num_output(self) -> int:
        return len(self._output)

    @property
    def num_pending(self) -> int:
        """Tokens of its context not yet computed; 1 while decoding."""
        return self.num_tokens - self.num_computed

    @property
    def is_decoding(self) -> bool:
        """Whether all is computed but the token that was sampled last."""
        return self.num_tokens - self.num_computed == 1 and bool(self._output)

    @property
    def room(self) -> int:
        """Tokens that can be computed before the request has filled the cells that it may fill."""
        most = self.request.max_cells
        return self.num_pending if most is None else most - self.num_computed

    @property
    def is_full(self) -> bool:
        """Whether it has filled the cells that it may fill."""
        return self.num_computed == self.request.max_cells

    def drop_half(self) -> int:
        """Drop the older half of what is computed after the first `keep` tokens; returns how many those are.

        So does llama.cpp when a context is full.
        """
        count = max(1, (self.num_computed - self.request.keep) // 2)
        self.num_dropped += count
        self.num_tokens -= count
        self.num_computed -= count
        return count

    @property
    def output(self) -> list[int]:
        """Sampled token ids; not to be changed."""
        return self._output

    @property
    def answer(self) -> list[int]:
        """The same without the end token, if it ended with one."""
        ended = self._output and self.request.is_end(self._output[-1])
        return self._output[:-1] if ended else self._output

    def tokens(self, start: int, stop: int) -> Tokens:
        """Token ids [start, stop) of the context, int32[stop - start]."""
        dropped, keep = self.num_dropped, self.request.keep
        if dropped == 0 or stop <= keep:
            return self._all_tokens(start, stop)
        if start >= keep:
            return self._all_tokens(start + dropped, stop + dropped)
        return np.concatenate([self._all_tokens(start, keep), self._all_tokens(keep + dropped, stop + dropped)])

    def _all_tokens(self, start: int, stop: int) -> Tokens:
        """Of prompt and output together, dropped or not."""
        if stop <= self.num_prompt:
            return self.request.prompt[start:stop]
        tail = np.asarray(self._output[max(0, start - self.num_prompt) : stop - self.num_prompt], dtype=np.int32)
        if start >= self.num_prompt:
            return tail
        return np.concatenate([self.request.prompt[start:], tail])

    def append(self, token: int, at_ns: int, *, stopped: bool = False, logprobs: TokenLogprobs | None = None) -> None:
        """Take a sampled token, which may be the last: if a stop string is complete (`stopped`), and by the request.

        One that has finished, whose slot a padded batch computes on, stays as it was.
        """
        self._output.append(token)
        self.num_tokens += 1
        self.token_ns.append(at_ns)
        if logprobs is not None:
            self.logprobs.append(logprobs)
        if self.finish_reason is not None:
            return
        if stopped or self.request.is_end(token):
            self.finish(FinishReason.STOP, at_ns)
        elif len(self._output) >= self.request.sampling.max_tokens:
            self.finish(FinishReason.LENGTH, at_ns)

    def finish(self, reason: FinishReason, now_ns: int, error: str | None = None) -> None:
        self.finish_reason = reason
        self.finished_ns = now_ns
        self.error = error

    def to_output(self, text: str, times: TimeSplit) -> RequestOutput:
        """The finished sequence as a value."""
        assert self.finish_reason is not None
        assert self.finished_ns is not None
        return RequestOutput(
            request=self.request,
            token_ids=np.asarray(self._output, dtype=np.int32),
            text=text,
            finish_reason=self.finish_reason,
            error=self.error,
            slot=self.slot,
            enqueued_ns=self.enqueued_ns,
            admitted_ns=self.admitted_ns,
            first_token_ns=self.token_ns[0] if self.token_ns else None,
            token_ns=np.asarray(self.token_ns, dtype=np.int64),
            finished_ns=self.finished_ns,
            times=times,
            cached_tokens=self.cached_tokens,
            preemptions=self.preemptions,
            dropped_tokens=self.num_dropped,
            logprobs=None if self.request.sampling.logprobs_needed is None else Logprobs.of(self.logprobs),
            prompt_logprobs=Logprobs.of_prompt(self.prompt_logprobs) if self.request.scores_prompt else None,
            sample=self.sample,
        )
