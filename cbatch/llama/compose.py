"""Which native decode calls a step is made of. Pure; knows how llama.cpp cuts a batch into ubatches, and nothing else.

Split KV. llama.cpp forms a ubatch from consecutive, ascending sequence ids and takes equally many tokens from each, and
every ubatch reads all weights. So single tokens go into one call over sorted slots, and prompt chunks into calls of few
sequences with long chunks (attention's fast path needs 64 tokens of a sequence in a ubatch).

Unified KV. A ubatch takes any tokens in order, so a step is one call.
"""

from __future__ import annotations

from typing import NamedTuple

from cbatch.engine.runner import StepPlan, Work


class Call(NamedTuple):
    """One llama_decode."""

    kind: str
    """`decode`, `prefill` or `mixed`."""
    works: list[Work]

    @property
    def num_tokens(self) -> int:
        return sum(work.length for work in self.works)


def compose(plan: StepPlan, *, kv_mode: str, ubatch: int) -> list[Call]:
    """The calls of a step, in the order in which to make them; each work is in exactly one."""
    if kv_mode == "unified":
        return _one_call(plan)
    single = [work for work in plan.prefills if work.length == 1]
    chunks = [work for work in plan.prefills if work.length > 1]
    decodes = sorted([*plan.decodes, *plan.padding, *single], key=_slot)
    calls = [Call("decode" if plan.decodes or plan.padding else "prefill", decodes)] if decodes else []
    return calls + [Call("prefill", group) for group in _groups(sorted(chunks, key=_slot), ubatch)]


def _one_call(plan: StepPlan) -> list[Call]:
    decodes = [*plan.decodes, *plan.padding]
    works = [*decodes, *plan.prefills]
    kind = "mixed" if decodes and plan.prefills else "prefill" if plan.prefills else "decode"
    return [Call(kind, works)] if works else []


def _groups(works: list[Work], ubatch: int) -> list[list[Work]]:
    """Neighbouring slots share a call as long as all their tokens fit one ubatch."""
    groups: list[list[Work]] = []
    room = 0
    for work in works:
        if groups and work.length <= room and _slot(groups[-1][-1]) + 1 == _slot(work):
            groups[-1].append(work)
        else:
            groups.append([work])
            room = ubatch
        room -= work.length
    return groups


def _slot(work: Work) -> int:
    assert work.seq.slot is not None
    return work.seq.slot
