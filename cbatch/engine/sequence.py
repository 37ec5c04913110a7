"""The mutable state of one generation. Knows no text rules, no slots' KV, no clock."""

from __future__ import annotations

import numpy as np

from cbatch.types import FinishReason, Request, RequestOutput, TimeSplit, Tokens


class Sequence:
    """One running or waiting generation: prompt and output tokens, and how many of them are computed.

    Invariant: 0 <= num_computed <= num_tokens; the next token is sampled when they meet.
    """

    __slots__ = (
        "_output",
        "admitted_ns",
        "enqueued_ns",
        "error",
        "finish_reason",
        "finished_ns",
        "num_computed",
        "num_prompt",
        "request",
        "slot",
        "text",
        "token_ns",
    )

    def __init__(self, request: Request, enqueued_ns: int) -> None:
        self.request = request
        self.num_prompt = int(request.prompt.size)
        self.num_computed = 0
        self.slot: int | None = None
        self.text: list[str] = []
        self.token_ns: list[int] = []
        self.enqueued_ns = enqueued_ns
        self.admitted_ns: int | None = None
        self.finished_ns: int | None = None
        self.finish_reason: FinishReason | None = None
        self.error: str | None = None
        self._output: list[int] = []

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def num_output(self) -> int:
        return len(self._output)

    @property
    def num_tokens(self) -> int:
        return self.num_prompt + len(self._output)

    @property
    def num_pending(self) -> int:
        """Tokens not yet computed; 1 while decoding."""
        return self.num_prompt + len(self._output) - self.num_computed

    @property
    def output(self) -> list[int]:
        """Sampled token ids; not to be changed."""
        return self._output

    def tokens(self, start: int, stop: int) -> Tokens:
        """Token ids [start, stop) of prompt and output together, int32[stop - start]."""
        if stop <= self.num_prompt:
            return self.request.prompt[start:stop]
        tail = np.asarray(self._output[max(0, start - self.num_prompt) : stop - self.num_prompt], dtype=np.int32)
        if start >= self.num_prompt:
            return tail
        return np.concatenate([self.request.prompt[start:], tail])

    def append(self, token: int, at_ns: int, text: str) -> None:
        """Take a sampled token."""
        self._output.append(token)
        self.token_ns.append(at_ns)
        if text:
            self.text.append(text)

    def finish(self, reason: FinishReason, now_ns: int, error: str | None = None) -> None:
        self.finish_reason = reason
        self.finished_ns = now_ns
        self.error = error

    def to_output(self, times: TimeSplit) -> RequestOutput:
        """The finished sequence as a value."""
        assert self.finish_reason is not None
        assert self.finished_ns is not None
        return RequestOutput(
            request=self.request,
            token_ids=np.asarray(self._output, dtype=np.int32),
            text="".join(self.text),
            finish_reason=self.finish_reason,
            error=self.error,
            slot=self.slot,
            enqueued_ns=self.enqueued_ns,
            admitted_ns=self.admitted_ns,
            first_token_ns=self.token_ns[0] if self.token_ns else None,
            token_ns=np.asarray(self.token_ns, dtype=np.int64),
            finished_ns=self.finished_ns,
            times=times,
        )
