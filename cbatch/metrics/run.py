"""Metrics of a run, gathered while it goes on. Takes 6 MB at most, however many requests there are."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, fields

from cbatch.metrics.kv_table import KVTable, KVTotals
from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.request import COMPLETED, RequestMetrics, is_completed, samples_of
from cbatch.metrics.sketch import Sketch
from cbatch.metrics.steps import StepTotals, per_second
from cbatch.types import EngineView, FinishReason, RequestOutput, RowFault, RowRef, StepRecord

LATENCIES = ("queue_ns", "ttft_ns", "tpot_ns", "e2e_ns")


@dataclass(frozen=True, slots=True)
class RunSummary:
    """A run in figures. Completed means finished with `stop` or `length`; None where there is nothing to divide by.

    A row of several samples is one request. It ended as its first sample did, when its last one had; its latencies are
    those of its first sample.
    """

    rows_total: int
    rows_ok: int
    """Completed."""
    rows_failed: int
    """Rows that couldn't be run, and requests that ended in an error."""
    rows_cancelled: int
    finish_reasons: Mapping[str, int]
    """Rows by finish reason; a row that couldn't be run counts as `error`."""
    prompt_tokens: int
    """Of completed requests."""
    output_tokens: int
    """Of completed requests, end tokens included: of all their samples that completed."""
    duration_ns: int
    """First arrival to last finish, over all requests; for `run`, a row arrives when it's read."""
    engine_ns: int
    """First step start to last step end."""
    requests_per_s: float | None
    """Completed requests / duration."""
    output_tokens_per_s: float | None
    """Output tokens / duration."""
    total_tokens_per_s: float | None
    """(Prompt tokens + output tokens) / duration."""
    prefill_tokens_per_s: float | None
    """Prompt tokens computed / seconds inside calls that held prompt chunks."""
    decode_tokens_per_s: float | None
    """Output tokens computed / seconds inside calls that held decodes."""
    steps: int
    concurrency: float | None
    """Time-weighted mean of running sequences, over engine time."""
    slot_utilisation: float | None
    """Busy slot-steps / (steps x slots)."""
    short_of_memory: float | None
    """Share of steps in which some waited though slots were free."""
    kv_utilisation: float | None
    """KV cells used / reserved, time-weighted."""
    kv_waste: float | None
    """1 - KV utilisation."""
    llama_share: float | None
    """Time inside llama_decode / engine time."""
    schedule_ns_per_step: float | None
    """Mean scheduler time of a step."""
    prefix_hit_rate: float | None
    """Prompt tokens restored / (restored + computed), over all sequences. Each sample is one: of n samples, all but the
    first may find the prompt computed."""
    ideal_prefix_hit_rate: float | None
    """The same, had an unlimited cache kept every prefix."""
    restored_tokens: int
    """Prompt tokens that were restored and so not computed."""
    saved_ns: float | None
    """Time that they would have taken, less that for restoring and saving; below 0 where it was more."""
    restore_ns: int
    save_ns: int
    restore_share: float | None
    """Time for restoring / engine time."""
    preemptions: int
    """Times that a sequence lost its slot to others."""
    moves: int
    """Times that a sequence went into another slot, to close a hole."""
    kv_memory: KVTable
    """What the run held, and what other ways of giving out KV cells would have."""
    latencies: Mapping[str, Distribution]
    """Of completed requests: `queue_ns`, `ttft_ns`, `tpot_ns` (those with two tokens or more), `e2e_ns`.
    Percentiles of up to 100,000 requests are exact; of more, they are within 0.05 % (`cbatch.metrics.sketch`)."""

    def to_dict(self) -> dict[str, object]:
        """JSON-ready, with units in the names."""
        record = {f.name: getattr(self, f.name) for f in fields(self)}
        record["finish_reasons"] = dict(self.finish_reasons)
        record["kv_memory"] = self.kv_memory.to_dict()
        record["latencies"] = {name: d.to_dict() for name, d in self.latencies.items()}
        return record


class RunAccumulator:
    """An `Observer` that can sum up the run at any moment. `bytes_per_token`: of KV, to tell cells as bytes."""

    def __init__(self, bytes_per_token: float | None = None) -> None:
        self._bytes_per_token = bytes_per_token
        self._reasons: Counter[FinishReason] = Counter()
        self._prompt_tokens = 0
        self._output_tokens = 0
        self._first_arrival_ns: int | None = None
        self._last_finish_ns = 0
        self._steps = StepTotals()
        self._kv = KVTotals()
        self._latencies = {name: Sketch() for name in LATENCIES}

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:  # noqa: ARG002 (Observer)
        self._steps.add(record)
        self._kv.add(record)

    def finished(self, ref: RowRef, output: RequestOutput) -> None:  # noqa: ARG002 (Observer)
        self._reasons[output.finish_reason] += 1
        self._stretch(output.request.arrival_ns, max(sample.finished_ns for sample in samples_of(output)))
        if is_completed(output):
            self._complete(output)

    def fault(self, fault: RowFault) -> None:  # noqa: ARG002 (Observer)
        self._reasons[FinishReason.ERROR] += 1

    def _stretch(self, arrival_ns: int, finished_ns: int) -> None:
        """Make the duration cover one more request."""
        if self._first_arrival_ns is None:
            self._first_arrival_ns, self._last_finish_ns = arrival_ns, finished_ns
        self._first_arrival_ns = min(self._first_arrival_ns, arrival_ns)
        self._last_finish_ns = max(self._last_finish_ns, finished_ns)

    def _complete(self, output: RequestOutput) -> None:
        self._prompt_tokens += int(output.request.prompt.size)
        self._output_tokens += sum(int(s.token_ids.size) for s in samples_of(output) if is_completed(s))
        metrics = RequestMetrics.of(output)
        for name, values in self._latencies.items():
            value = getattr(metrics, name)
            if value is not None:
                values.add(value)

    def summary(self) -> RunSummary:
        """The run so far."""
        reasons, steps = self._reasons, self._steps
        ok = sum(reasons[r] for r in COMPLETED)
        duration = 0 if self._first_arrival_ns is None else self._last_finish_ns - self._first_arrival_ns
        return RunSummary(
            rows_total=sum(reasons.values()),
            rows_ok=ok,
            rows_failed=reasons[FinishReason.ERROR],
            rows_cancelled=reasons[FinishReason.CANCELLED],
            finish_reasons={r.value: reasons[r] for r in FinishReason if reasons[r]},
            prompt_tokens=self._prompt_tokens,
            output_tokens=self._output_tokens,
            duration_ns=duration,
            engine_ns=steps.engine_ns,
            requests_per_s=per_second(ok, duration),
            output_tokens_per_s=per_second(self._output_tokens, duration),
            total_tokens_per_s=per_second(self._prompt_tokens + self._output_tokens, duration),
            prefill_tokens_per_s=steps.prefill_tokens_per_s,
            decode_tokens_per_s=steps.decode_tokens_per_s,
            steps=steps.steps,
            concurrency=steps.concurrency,
            slot_utilisation=steps.slot_utilisation,
            short_of_memory=steps.short_of_memory,
            kv_utilisation=steps.kv_utilisation,
            kv_waste=steps.kv_waste,
            llama_share=steps.llama_share,
            schedule_ns_per_step=steps.schedule_ns_per_step,
            prefix_hit_rate=steps.prefix_hit_rate,
            ideal_prefix_hit_rate=steps.ideal_prefix_hit_rate,
            restored_tokens=steps.restored_tokens,
            saved_ns=steps.saved_ns,
            restore_ns=steps.restore_ns,
            save_ns=steps.save_ns,
            restore_share=steps.restore_share,
            preemptions=steps.preempted,
            moves=steps.moved,
            kv_memory=self._kv.table(self._bytes_per_token),
            latencies={name: values.distribution() for name, values in self._latencies.items()},
        )
