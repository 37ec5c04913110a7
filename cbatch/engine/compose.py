"""Which native decode calls a step is made of, for runners that make them and for those that only predict their times.

Pure; knows how llama.cpp cuts a batch into ubatches, and nothing else.

Split KV. llama.cpp forms a ubatch from consecutive, ascending sequence ids and takes equally many tokens from each, and
every ubatch reads all weights. So single tokens go into one call over sorted slots, and prompt chunks into calls of few
sequences with long chunks (attention's fast path needs 64 tokens of a sequence in a ubatch).

Unified KV. A ubatch takes any tokens in order, so a step is one call, but for prompts that are scored.
"""

from __future__ import annotations

from typing import NamedTuple

from cbatch.engine.runner import StepPlan, Work

_NO_LIMIT = 2**31


class Call(NamedTuple):
    """One llama_decode."""

    kind: str
    """`decode`, `prefill` or `mixed`."""
    works: list[Work]

    @property
    def num_tokens(self) -> int:
        return sum(work.length for work in self.works)


def compose(plan: StepPlan, *, streams: bool, ubatch: int, max_outputs: int) -> list[Call]:
    """The calls of a step, in the order in which to make them. `streams`: each slot is one of its own, as in split KV.

    Each work is in exactly one, but for prompts that are scored: they take a row of logits for each token, a call gives
    at most `max_outputs`, and so they are cut into pieces, made in order.
    """
    if not streams:
        return _pooled(plan, max_outputs)
    single = [work for work in plan.prefills if work.length == 1]
    chunks = [work for work in plan.prefills if work.length > 1]
    decodes = sorted([*plan.decodes, *plan.padding, *single], key=_slot)
    calls = [Call("decode" if plan.decodes or plan.padding else "prefill", decodes)] if decodes else []
    pieces = _pieces(sorted(chunks, key=_slot), max_outputs)
    return calls + [Call("prefill", group) for group in _groups(pieces, ubatch, max_outputs, in_a_row=True)]


def _pooled(plan: StepPlan, max_outputs: int) -> list[Call]:
    """One call, and further ones for prompts that are scored."""
    decodes = sorted([*plan.decodes, *plan.padding], key=_slot)
    prompts = [work for work in plan.prefills if not num_echoed(work)]
    works = [*decodes, *prompts]
    kind = "mixed" if decodes and prompts else "prefill" if prompts else "decode"
    calls = [Call(kind, works)] if works else []
    scored = _pieces([work for work in plan.prefills if num_echoed(work)], max_outputs)
    return calls + [Call("prefill", group) for group in _groups(scored, _NO_LIMIT, max_outputs, in_a_row=False)]


def _pieces(works: list[Work], most: int) -> list[Work]:
    """The works, cut so that none takes more than `most` rows of logits; those of a sequence in order."""
    pieces = []
    for work in works:
        while num_outputs(work) > most:  # its first tokens are those that take one each
            pieces.append(Work(work.seq, work.start, most))
            work = Work(work.seq, work.start + most, work.length - most)
        pieces.append(work)
    return pieces


def _groups(works: list[Work], most_tokens: int, most_outputs: int, *, in_a_row: bool) -> list[list[Work]]:
    """Works share a call while their tokens and rows of logits fit; `in_a_row`, only if their slots are neighbours."""
    groups: list[list[Work]] = []
    tokens = outputs = 0
    for work in works:
        tokens, outputs = tokens + work.length, outputs + num_outputs(work)
        fits = groups and tokens <= most_tokens and outputs <= most_outputs
        if fits and (not in_a_row or _slot(groups[-1][-1]) + 1 == _slot(work)):
            groups[-1].append(work)
        else:
            groups.append([work])
            tokens, outputs = work.length, num_outputs(work)
    return groups


def _slot(work: Work) -> int:
    assert work.seq.slot is not None
    return work.seq.slot


def num_echoed(work: Work) -> int:
    """How many of the work's tokens, from its first on, come right before one of a prompt that is to be scored."""
    if not work.seq.request.scores_prompt:
        return 0
    return max(0, min(work.length, work.seq.num_prompt - 1 - work.start))


def num_outputs(work: Work) -> int:
    """Rows of logits that the work takes: those tokens', then its last one's where it samples."""
    return num_echoed(work) + work.samples
