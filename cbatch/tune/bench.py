"""Runs loads on a real context, through the real engine, and says what each step computed and took."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from statistics import median

from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, Runner
from cbatch.errors import EngineError
from cbatch.sim.measured import MeasuredCall, MeasuredStep
from cbatch.sim.ubatches import Span, cut_pool, cut_streams
from cbatch.tune.loads import Load
from cbatch.types import CallRecord, Computed, Request, StepRecord

_NO_LIMIT = 2**62  # bytes


class Bench:
    """A runner under measurement.

    `vocabulary`: random tokens are below it. `streams`: it computes slots as streams of KV (`cbatch.sim.ubatches`), in
    ubatches of at most `ubatch` tokens. Without a `scheduler` sequences share what they can, but no cells of a pool.
    """

    def __init__(
        self,
        runner: Runner,
        scheduler: SchedulerConfig | None = None,
        *,
        vocabulary: int,
        streams: bool,
        ubatch: int,
    ) -> None:
        self._vocabulary = vocabulary
        self._streams = streams
        self._ubatch = ubatch
        if scheduler is None:  # in a pool too, sequences get cells of their own: a job's rows seldom share theirs
            capacity = runner.capacity
            scheduler = SchedulerConfig(
                capacity.max_num_seqs,
                capacity.max_batched_tokens,
                prefix_cache_bytes=_NO_LIMIT,
                share_cells=False,
                compact=False,
            )
        self._engine = Engine(runner, scheduler)

    def run(self, load: Load) -> list[MeasuredStep]:
        """The load's steps. Raises `EngineError` where a sequence fails."""
        steps = self.run_rows(load.requests(self._vocabulary))
        self._engine.forget_prefixes()
        return steps

    def run_rows(self, requests: Sequence[Request]) -> list[MeasuredStep]:
        """The same, of requests that are all there are."""
        for request in requests:
            self._engine.add(request)
        self._engine.end_arrivals()
        records = []
        while self._engine.has_work:
            for output in self._engine.step():
                if output.error is not None:
                    raise EngineError(output.error)
            if self._engine.last_step is not None:
                records.append(self._engine.last_step)
        prompts = {request.id: int(request.prompt.size) for request in requests}
        return measured_steps(records, prompts, streams=self._streams, ubatch=self._ubatch)


def measured_steps(
    records: Sequence[StepRecord], prompts: Mapping[str, int], *, streams: bool, ubatch: int
) -> list[MeasuredStep]:
    """Of steps that followed one another at once. `prompts`: tokens of each request's, by id."""

    def calls_of(record: StepRecord) -> tuple[MeasuredCall, ...]:
        return tuple(call(each, record.kv_used_cells) for each in record.call_log)

    def call(each: CallRecord, used: int) -> MeasuredCall:
        spans = [_span(computed, prompts) for computed in each.computed]
        ubatches = cut_streams(spans, ubatch) if streams else cut_pool(spans, ubatch, used)
        return MeasuredCall(tuple(ubatches), each.end_ns - each.start_ns)

    ends = [record.start_ns for record in records[1:]] + [record.end_ns for record in records[-1:]]
    return [
        MeasuredStep(
            calls=calls_of(record),
            running=record.slots_busy,
            sampled=record.output_tokens,
            sample_ns=record.sample_ns,
            overhead_ns=max(0, end - record.start_ns - _timed_ns(record)),
            restored_tokens=record.restored_tokens,
            restore_ns=record.restore_ns,
            saved_tokens=_saved(record),
            save_ns=record.save_ns,
        )
        for record, end in zip(records, ends, strict=True)
    ]


def _span(computed: Computed, prompts: Mapping[str, int]) -> Span:
    of_request = computed.id if computed.id in prompts else computed.id.rpartition("#")[0]
    prompt = prompts[of_request]
    return Span(computed.slot, computed.start, computed.length, int(computed.start + computed.length >= prompt))


def _timed_ns(record: StepRecord) -> int:
    return record.llama_ns + record.sample_ns + record.restore_ns + record.save_ns


def _saved(record: StepRecord) -> int:
    """A snapshot is taken at the end of a chunk."""
    if record.save_ns == 0:
        return 0
    chunks = (each for call in record.call_log for each in call.computed if each.phase == "prefill")
    return max((each.start + each.length for each in chunks), default=0)


def settled(repetitions: Sequence[Sequence[MeasuredStep]]) -> list[MeasuredStep]:
    """One repetition's steps, each with the median of the times that it took in all of them.

    The same load is scheduled in the same way, so that step i of one is step i of another. Where it wasn't, these are
    all steps as they are.
    """
    if len({tuple(map(_shape, steps)) for steps in repetitions}) != 1:
        return [step for steps in repetitions for step in steps]
    return [_typical(same) for same in zip(*repetitions, strict=True)]


def _shape(step: MeasuredStep) -> tuple[object, ...]:
    return (step.running, step.sampled, tuple(call.ubatches for call in step.calls))


def _typical(same: Sequence[MeasuredStep]) -> MeasuredStep:
    calls = tuple(
        MeasuredCall(of_one[0].ubatches, _middle(call.ns for call in of_one))
        for of_one in zip(*(step.calls for step in same), strict=True)
    )
    return replace(
        same[0],
        calls=calls,
        sample_ns=_middle(step.sample_ns for step in same),
        overhead_ns=_middle(step.overhead_ns for step in same),
        restore_ns=_middle(step.restore_ns for step in same),
        save_ns=_middle(step.save_ns for step in same),
    )


def _middle(values: Iterable[int]) -> int:
    return round(median(values))
