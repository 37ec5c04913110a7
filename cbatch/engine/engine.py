"""The engine: schedule, run, update. Owns no thread; each `step` is one iteration of the batch."""

from __future__ import annotations

from collections.abc import Iterator

from cbatch.clock import Clock
from cbatch.config import SchedulerConfig
from cbatch.engine.ledger import Ledger
from cbatch.engine.runner import CallTiming, Runner, StepPlan, StepResult, Work
from cbatch.engine.scheduler import Load, Scheduler
from cbatch.engine.sequence import Sequence
from cbatch.errors import ParameterError
from cbatch.types import CallRecord, Computed, EngineView, Request, RequestOutput, StepRecord


class Engine:
    """A continuous batcher over a runner.

        engine = Engine(runner)
        engine.add(Request("a", prompt=[1, 2, 3], sampling=SamplingParams(max_tokens=8)))
        for output in engine:      # finished requests, in order of completion
            print(output.id, output.text)

    Requests may be added at any time between steps, also while iterating. Times are the runner's clock's, unless
    another clock is given.
    """

    def __init__(self, runner: Runner, config: SchedulerConfig | None = None, clock: Clock | None = None) -> None:
        self.runner = runner
        self.clock = clock if clock is not None else runner.clock
        self.scheduler = Scheduler(config if config is not None else SchedulerConfig(), runner.capacity)
        self.last_step: StepRecord | None = None
        """What the last step did and where its time went; None if it had nothing to run."""
        self._live: dict[str, Sequence] = {}
        self._ledger = Ledger()

    @property
    def has_work(self) -> bool:
        return bool(self._live)

    @property
    def num_waiting(self) -> int:
        return len(self.scheduler.waiting)

    @property
    def num_running(self) -> int:
        return len(self.scheduler.running)

    @property
    def wakes_ns(self) -> int | None:
        """After a step that had nothing to run: when the next one may have, though nothing arrives."""
        return self.scheduler.wakes_ns

    def add(self, request: Request) -> None:
        """Enqueue a request. Raises `ParameterError` if one of that id is still unfinished."""
        if request.id in self._live:
            raise ParameterError(f"request id {request.id!r} is already in the engine: give each request its own")
        seq = Sequence(request, self.clock.now_ns() if request.enqueued_ns is None else request.enqueued_ns)
        self._live[request.id] = seq
        self.scheduler.add(seq)

    def cancel(self, request_id: str) -> RequestOutput:
        """End an unfinished request between two steps. Raises KeyError for an unknown id."""
        seq = self._live[request_id]
        self.scheduler.cancel(seq, self.clock.now_ns())
        return self._output(seq)

    def cancel_all(self) -> list[RequestOutput]:
        """End every unfinished request between two steps."""
        return [self.cancel(request_id) for request_id in list(self._live)]

    def cancel_waiting(self) -> list[str]:
        """Withdraw every request that has no slot yet; returns their ids."""
        ids = [seq.id for seq in self.scheduler.waiting.drain()]
        for request_id in ids:
            del self._live[request_id]
        return ids

    def step(self) -> list[RequestOutput]:
        """One iteration; returns the requests that finished in it."""
        self.last_step = None
        refused = self._make_room()
        if refused:
            return [self._output(seq) for seq in refused]
        start = self.clock.now_ns()
        plan = self.scheduler.schedule(start)
        if plan.empty:
            return []
        load = self.scheduler.load()
        planned = self.clock.now_ns()
        result = self.runner.run(plan)
        decoding = {work.seq for work in (*plan.decodes, *plan.padding)}
        self._book(plan, result, decoding)
        computed = self.clock.now_ns()
        finished = self.scheduler.update(plan, result, computed)
        updated = self.clock.now_ns()
        outputs = [self._output(seq) for seq in finished]
        while self.scheduler.padded:
            self.runner.finish(self.scheduler.padded.pop())
        scheduling_ns = (planned - start) + (updated - computed)
        self.last_step = self._record(plan, result, load, start, scheduling_ns, len(finished), decoding)
        return outputs

    def __iter__(self) -> Iterator[RequestOutput]:
        while self.has_work:
            yield from self.step()

    def view(self) -> EngineView:
        return self.scheduler.view()

    def check_integrity(self) -> None:
        """Assert the scheduler's invariants and that no request is lost. For tests."""
        self.scheduler.check_integrity()
        assert len(self._live) == self.num_running + self.num_waiting

    def _make_room(self) -> list[Sequence]:
        """Once the engine is drained, grow the context for a request that fits no slot; fail it if that can't be."""
        refused = []
        while (cells := self.scheduler.cells_wanting()) is not None:
            before, after = self.runner.capacity, self.runner.grow(cells)
            if after != before:
                self.scheduler.resize(after)
            if self.scheduler.cells_wanting() == cells:
                refused.append(self.scheduler.refuse_head(self.clock.now_ns()))
        return refused

    def _book(self, plan: StepPlan, result: StepResult, decoding: set[Sequence]) -> None:
        running = self.scheduler.running
        self._ledger.open(running[len(running) - plan.admitted :])
        for call in result.calls:
            self._ledger.add(call, decoding)

    def _output(self, seq: Sequence) -> RequestOutput:
        del self._live[seq.id]
        seq.text.append(self.runner.finish(seq))
        return seq.to_output(self._ledger.close(seq))

    def _record(
        self,
        plan: StepPlan,
        result: StepResult,
        load: Load,
        start_ns: int,
        schedule_ns: int,
        finished: int,
        decoding: set[Sequence],
    ) -> StepRecord:
        kv, padding = self.scheduler.kv, {work.seq for work in plan.padding}
        return StepRecord(
            step=plan.step,
            start_ns=start_ns,
            end_ns=self.clock.now_ns(),
            schedule_ns=schedule_ns,
            decode_call_ns=result.call_ns("decode"),
            prefill_call_ns=result.call_ns("prefill"),
            mixed_call_ns=result.call_ns("mixed"),
            sample_ns=result.sample_ns,
            calls=len(result.calls),
            admitted=plan.admitted,
            finished=finished,
            failed=len(result.failed),
            decode_seqs=len(plan.decodes),
            padding_seqs=len(plan.padding),
            prefill_seqs=len(plan.prefills),
            prefill_tokens=sum(work.length for work in plan.prefills),
            output_tokens=sum(sampled.seq not in padding for sampled in result.sampled),
            slots_busy=load.running,
            slots_total=self.scheduler.num_slots,
            waiting=load.waiting,
            kv_used_cells=self.scheduler.kv_used_after_step,
            kv_reserved_cells=load.kv_reserved_cells,
            kv_total_cells=kv.capacity.total_cells,
            call_log=tuple(_call_record(call, decoding) for call in result.calls),
        )


def _call_record(call: CallTiming, decoding: set[Sequence]) -> CallRecord:
    return CallRecord(call.kind, call.start_ns, call.end_ns, tuple(_computed(work, decoding) for work in call.works))


def _computed(work: Work, decoding: set[Sequence]) -> Computed:
    seq = work.seq
    assert seq.slot is not None
    return Computed(seq.id, seq.slot, "decode" if seq in decoding else "prefill", work.start, work.length)
