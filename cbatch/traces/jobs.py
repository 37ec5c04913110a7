"""From the requests of a trace to jobs for the driver. Knows encoders and synthesisers by their calls only."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from typing import Any, Protocol

from cbatch.sampling import SamplingParams
from cbatch.traces.trace import TraceRequest
from cbatch.types import Job, Request, Row, RowFault, RowKind, RowRef, Tokens


class Encodes(Protocol):
    """Makes requests for one model."""

    def encode(self, row: Row) -> Request | RowFault: ...

    def from_tokens(self, ref: RowRef, prompt: Tokens, sampling: SamplingParams, priority: int) -> Request: ...


@dataclass(frozen=True, slots=True)
class OutputLengths:
    """How long outputs get: as the trace says, to the token, or (`natural`) until the model stops."""

    sampling: SamplingParams
    """Its `max_tokens` bounds what the trace leaves open."""
    natural: bool = False

    def of(self, request: TraceRequest) -> SamplingParams:
        if self.natural or request.output_tokens is None:
            return self.sampling
        forced = request.output_tokens
        return replace(self.sampling, max_tokens=forced, ignore_eos=True, stop=(), stop_token_ids=())

    def cells(self, request: TraceRequest) -> int | None:
        """KV cells the request fills at most; None where its prompt is a text, whose length is open."""
        if request.prompt_tokens is None:
            return None
        forced = None if self.natural else request.output_tokens
        return request.prompt_tokens + (self.sampling.max_tokens if forced is None else forced) - 1


def trace_jobs(
    requests: Iterable[TraceRequest],
    name: str,
    *,
    encoder: Encodes,
    synthesise: Callable[[TraceRequest, int], Tokens],
    lengths: OutputLengths,
    most_tokens: int,
) -> Iterator[Job]:
    """One job for each request, in order, named by its 1-based number; `name` is the trace's, for messages.

    `synthesise` makes the tokens of a request's prompt from the request and its number. One of more than `most_tokens`,
    which no context takes, isn't made: a trace may ask for 2**31 - 1.
    """
    for number, request in enumerate(requests, 1):
        kind = RowKind.COMPLETION if request.prompt is None else RowKind.PROMPT
        ref = RowRef(number, str(number), f"{name}:{number}", request.arrival_ns, kind, _carried(request))
        sampling = lengths.of(request)
        if request.prompt_tokens is not None and request.prompt_tokens > most_tokens:
            yield RowFault(ref, "prompt_too_long", _too_long(request.prompt_tokens, most_tokens))
        elif request.prompt is None:
            yield ref, encoder.from_tokens(ref, synthesise(request, number), sampling, request.priority)
        else:
            made = encoder.encode(Row(ref, request.prompt, sampling, request.priority))
            yield made if isinstance(made, RowFault) else (ref, made)


def _too_long(tokens: int, most: int) -> str:
    return f"the prompt has {tokens} tokens, and the context holds {most}: give --scale-lengths below 1, or raise --ctx"


def _carried(request: TraceRequest) -> dict[str, Any]:
    """What is handed through to the results."""
    given = {"session_id": request.session_id, "tenant": request.tenant}
    return {name: value for name, value in given.items() if value is not None}
