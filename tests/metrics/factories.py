"""Finished requests and step records, with only what a test cares about given."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import fields, replace
from typing import Any

import numpy as np

from cbatch.logprobs import Logprobs, TokenLogprobs
from cbatch.types import EngineView, FinishReason, Request, RequestOutput, RowFault, RowRef, StepRecord, TimeSplit


def make_ref(number: int = 1, carried: Mapping[str, Any] | None = None, row_id: str | None = None) -> RowRef:
    return RowRef(number, row_id or f"row-{number}", f"prompts.jsonl:{number}", 0, carried=carried or {})


def make_output(
    token_ns: Sequence[int] = (),
    *,
    arrival_ns: int = 0,
    enqueued_ns: int | None = None,
    admitted_ns: int | None = None,
    finished_ns: int | None = None,
    reason: FinishReason = FinishReason.STOP,
    prompt_tokens: int = 3,
    text: str = "",
    error: str | None = None,
    slot: int | None = 0,
    priority: int = 0,
    times: TimeSplit | None = None,
    **fields: Any,
) -> RequestOutput:
    """A request whose tokens were sampled at `token_ns`; it finishes with the last one unless told otherwise.

    `fields` are those of `RequestOutput` that have a default.
    """
    return RequestOutput(
        request=Request("r", np.zeros(prompt_tokens, np.int32), priority=priority, arrival_ns=arrival_ns),
        token_ids=np.arange(len(token_ns), dtype=np.int32),
        text=text,
        finish_reason=reason,
        error=error,
        slot=slot,
        enqueued_ns=arrival_ns if enqueued_ns is None else enqueued_ns,
        admitted_ns=admitted_ns,
        first_token_ns=token_ns[0] if token_ns else None,
        token_ns=np.asarray(token_ns, dtype=np.int64),
        finished_ns=(token_ns[-1] if token_ns else arrival_ns) if finished_ns is None else finished_ns,
        times=TimeSplit() if times is None else times,
        **fields,
    )


def make_samples(*outputs: RequestOutput) -> RequestOutput:
    """One request of several samples, numbered in order."""
    numbered = [replace(output, sample=i) for i, output in enumerate(outputs)]
    return replace(numbered[0], others=tuple(numbered[1:]))


def make_logprobs(*places: tuple[float, list[tuple[int, float]]]) -> Logprobs:
    """The logprob of each token, and of the likeliest at its place."""
    return Logprobs.of(
        [
            TokenLogprobs(own, np.array([i for i, _ in top], np.int32), np.array([p for _, p in top], np.float64))
            for own, top in places
        ]
    )


def spell(token: int) -> bytes:
    """What a token prints: letters, and the bytes of `é` as 256 and 257."""
    return bytes([0xC3, 0xA9][token - 256 : token - 255]) if token >= 256 else b"abcdefgh"[token : token + 1]


STEP_NUMBERS = tuple(f.name for f in fields(StepRecord) if f.name != "call_log")


def make_step(**values: int) -> StepRecord:
    """A step record with zeros for all that isn't given, and without calls."""
    numbers: dict[str, Any] = {name: values.pop(name, 0) for name in STEP_NUMBERS} | values
    return StepRecord(**numbers)


def make_fault(number: int = 1, carried: Mapping[str, Any] | None = None) -> RowFault:
    return RowFault(make_ref(number, carried), "empty_prompt", "the prompt is empty: give some text")


def no_view() -> EngineView:
    raise AssertionError("nothing here should build a view")
