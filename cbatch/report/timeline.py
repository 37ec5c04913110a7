"""A run as a timeline for ui.perfetto.dev: what each slot and the engine did, when. Knows no figures of the whole.

    engine   native calls, steps, and counters
    slots    a track each: a slice for a request, in it one for every native call that computed some of it; a request
             that lost its slot, or moved to another, has a slice for each time in a slot
    queue    a span for a request that waited for a slot

It is written while the run goes on; only where unfinished requests are is kept.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

from cbatch.metrics import Attribution, RequestMetrics
from cbatch.metrics.request import samples_of
from cbatch.report.chrome_trace import Args, ChromeTrace, Track
from cbatch.report.stretches import Stretches
from cbatch.report.text import one_line
from cbatch.types import CallRecord, EngineView, RequestOutput, RowFault, RowRef, StepRecord, sample_id

ENGINE, SLOTS, QUEUE = 1, 2, 3
CALLS, STEPS, COUNTERS = Track(ENGINE, 11), Track(ENGINE, 12), Track(ENGINE, ENGINE)
WAITING = Track(QUEUE, QUEUE)
_FIRST_SLOT = 100


class TimelineWriter:
    """An `Observer` that writes the run to `path`. Close it, whatever happened: what ran is then readable.

    Raises `OutputError` where the disk refuses.
    """

    def __init__(self, path: str | os.PathLike[str]) -> None:
        self._trace = ChromeTrace(Path(path))
        self._slots_named = 0
        self._stretches = Stretches()
        self._ended: list[tuple[str, RequestOutput]] = []
        """Names and outputs; where they were in their last step is heard of with that step, after them."""
        for pid, name in ((ENGINE, "engine"), (SLOTS, "slots"), (QUEUE, "queue")):
            self._trace.name_process(pid, name)
        self._trace.name_track(CALLS, "native calls")
        self._trace.name_track(STEPS, "steps")

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        for slot in range(self._slots_named, record.slots_total):
            self._trace.name_track(slot_track(slot), f"slot {slot}")
        self._slots_named = max(self._slots_named, record.slots_total)
        self._trace.slice(STEPS, "step", f"step {record.step}", record.start_ns, record.end_ns, _step_args(record))
        for call in record.call_log:
            self._call(record.step, call)
        self._counters(record)
        self._stretches.step(record.start_ns, self._slots_in(record, view()))
        self._write_ended()

    def _slots_in(self, record: StepRecord, after: EngineView) -> dict[str, int]:
        """The slot of each sequence that had one in the step: those that go on, and those that ended in it."""
        ended = {
            sample_id(output.id, sample.sample): sample.slot
            for _, output in self._ended
            for sample in samples_of(output)
            if sample.slot is not None and sample.finished_ns > record.start_ns
        }
        computed = {work.id: work.slot for call in record.call_log for work in call.computed}
        # else what is computed is padding, of sequences that have ended long ago
        known = {name: slot for name, slot in computed.items() if name in self._stretches}
        return {**known, **{seat.id: seat.slot for seat in after.slots}, **ended}

    def _call(self, step: int, call: CallRecord) -> None:
        args = {"step": step, "sequences": len(call.computed), "tokens": sum(work.length for work in call.computed)}
        name = call.kind if call.computed else f"{call.kind} (failed)"
        self._trace.slice(CALLS, "call", name, call.start_ns, call.end_ns, args)
        for _, slot, phase, start, length in call.computed:
            args = {"step": step, "position": start, "tokens": length}
            self._trace.slice(slot_track(slot), "tokens", phase, call.start_ns, call.end_ns, args)

    def _counters(self, record: StepRecord) -> None:
        """A step's values hold from its start until the next one, unless it leaves nothing running."""
        self._count(
            record.start_ns,
            (record.waiting, record.slots_busy),
            (record.kv_used_cells, record.kv_reserved_cells),
            record.output_tokens,
        )
        if record.finished >= record.slots_busy:
            self._count(record.end_ns, (record.waiting, 0), (0, 0), 0)

    def _count(self, at_ns: int, requests: tuple[int, int], cells: tuple[int, int], tokens: int) -> None:
        self._trace.counter(COUNTERS, "requests", at_ns, dict(zip(("waiting", "running"), requests, strict=True)))
        self._trace.counter(COUNTERS, "KV cells", at_ns, dict(zip(("used", "reserved"), cells, strict=True)))
        self._trace.counter(COUNTERS, "a step's output", at_ns, {"tokens": tokens})

    def finished(self, ref: RowRef, output: RequestOutput) -> None:
        name = one_line(ref.id)
        admitted = output.finished_ns if output.admitted_ns is None else output.admitted_ns
        self._trace.span(WAITING, "queue", "waiting", ref.number, output.enqueued_ns, admitted, {"request": name})
        self._ended.append((name, output))

    def _write_ended(self) -> None:
        for name, output in self._ended:
            for sample in samples_of(output):
                self._write_slices(name, sample)
            for number in range(output.request.num_samples):  # those too that `best_of` didn't choose
                self._stretches.forget(sample_id(output.id, number))
        self._ended.clear()

    def _write_slices(self, name: str, output: RequestOutput) -> None:
        """One sample's, with the same to be told of each."""
        args = _request_args(output)
        stretches = list(self._stretches.until(sample_id(output.id, output.sample), output.finished_ns))
        if not stretches and output.admitted_ns is not None and output.slot is not None:  # all in one step
            stretches = [(output.slot, output.admitted_ns, output.finished_ns)]
        for slot, start_ns, end_ns in stretches:
            self._trace.slice(slot_track(slot), "request", sample_id(name, output.sample), start_ns, end_ns, args)

    def fault(self, fault: RowFault) -> None:
        """A row that couldn't be run has no place in time."""

    def close(self) -> None:
        """Complete the file. Calling it again, or after an error, does nothing."""
        if not self._trace.closed:
            self._write_ended()  # those that were cancelled after the last step
        self._trace.close()

    def __enter__(self) -> TimelineWriter:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def slot_track(slot: int) -> Track:
    return Track(SLOTS, _FIRST_SLOT + slot)


def _step_args(record: StepRecord) -> Args:
    return {
        "admitted": record.admitted,
        "finished": record.finished,
        "prefill_tokens": record.prefill_tokens,
        "decode_seqs": record.decode_seqs,
        "output_tokens": record.output_tokens,
        "llama_ms": record.llama_ns / 1e6,
        "schedule_ms": record.schedule_ns / 1e6,
        "sample_ms": record.sample_ns / 1e6,
    }


def _request_args(output: RequestOutput) -> Args:
    """What the request was and got, and where its time went; a time that never came is left out."""
    metrics = RequestMetrics.of(output)
    times = {
        "ttft_ns": metrics.ttft_ns,
        "tpot_ns": metrics.tpot_ns,
        "e2e_ns": metrics.e2e_ns,
        **Attribution.of(output)._asdict(),
    }
    return {
        "prompt_tokens": int(output.request.prompt.size),
        "output_tokens": int(output.token_ids.size),
        "finish_reason": output.finish_reason.value,
        **({} if output.error is None else {"error": one_line(output.error)}),
        **{f"{name[:-3]}_ms": ns / 1e6 for name, ns in times.items() if ns is not None},
    }
