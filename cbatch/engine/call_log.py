"""What a step's native calls computed, as values that outlive its sequences. Knows no times but the calls' own."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from cbatch.engine.runner import CallTiming, Work
from cbatch.engine.sequence import Sequence
from cbatch.types import CallRecord, Computed


def call_log(calls: Iterable[CallTiming], decoding: Collection[Sequence]) -> tuple[CallRecord, ...]:
    """Of the calls, in order; `decoding` are the sequences for which they computed an output token."""
    return tuple(
        CallRecord(call.kind, call.start_ns, call.end_ns, tuple(_computed(work, decoding) for work in call.works))
        for call in calls
    )


def _computed(work: Work, decoding: Collection[Sequence]) -> Computed:
    seq = work.seq
    assert seq.slot is not None
    return Computed(seq.id, seq.slot, "decode" if seq in decoding else "prefill", work.start, work.length)
