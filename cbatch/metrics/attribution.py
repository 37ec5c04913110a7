"""Where a request's end-to-end time went. A pure function of one finished request; the parts add up exactly."""

from __future__ import annotations

from typing import NamedTuple

from cbatch.metrics.request import e2e, slip
from cbatch.types import RequestOutput


class Attribution(NamedTuple):
    """The parts of e2e in the order in which they mostly happen, ns; each >= 0, and e2e is their sum.

    With `arrival <= enqueued <= admitted <= finished` (a request that never got a slot is admitted when it ends):

        e2e = slip + queue + prefill + decode + others_prefill + others_decode + preempted + other
    """

    slip_ns: int
    """enqueued - arrival: lateness of the driver, or the wait for a place under a concurrency limit."""
    queue_ns: int
    """admitted - enqueued: waiting for a slot. (The metric `queue` counts from the arrival.)"""
    prefill_ns: int
    """Inside calls that computed its own prompt."""
    decode_ns: int
    """Inside calls that computed its own output tokens."""
    others_prefill_ns: int
    """In a slot, stalled by calls that computed prompts of others."""
    others_decode_ns: int
    """In a slot, stalled by calls that computed output tokens of others."""
    preempted_ns: int
    """Put back into the queue after having had a slot."""
    other_ns: int
    """The rest of its time in a slot: scheduling, sampling, writing, and pauses between steps."""

    @classmethod
    def of(cls, output: RequestOutput) -> Attribution:
        """Of a finished request, well or not. In a mixed call, time counts by tokens (see `TimeSplit`)."""
        arrival, finished, times = output.request.arrival_ns, output.finished_ns, output.times
        admitted = finished if output.admitted_ns is None else output.admitted_ns
        late = slip(arrival, output.enqueued_ns)
        queued = admitted - output.enqueued_ns
        return cls(late, queued, *times, other_ns=e2e(arrival, finished) - late - queued - sum(times))
