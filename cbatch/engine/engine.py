"""The engine: schedule, run, update. Owns no thread; each `step` is one iteration of the batch."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cbatch.clock import Clock
from cbatch.config import SchedulerConfig
from cbatch.engine.call_log import call_log
from cbatch.engine.group import Group
from cbatch.engine.ledger import Ledger
from cbatch.engine.runner import Runner, StepPlan, StepResult
from cbatch.engine.scheduler import Load, Scheduler
from cbatch.engine.sequence import Sequence
from cbatch.engine.view import view_of
from cbatch.errors import EngineError, ParameterError
from cbatch.types import EngineView, Request, RequestOutput, StepRecord


class Engine:
    """A continuous batcher over a runner.

        engine = Engine(runner)
        engine.add(Request("a", prompt=[1, 2, 3], sampling=SamplingParams(max_tokens=8)))
        for output in engine:      # finished requests, in order of completion
            print(output.id, output.text)

    Requests may be added at any time between steps, also while iterating. Times are the runner's clock's, unless
    another clock is given. Without `log_calls` the records of steps don't tell what each native call computed.
    """

    def __init__(
        self,
        runner: Runner,
        config: SchedulerConfig | None = None,
        clock: Clock | None = None,
        *,
        log_calls: bool = True,
    ) -> None:
        self.runner = runner
        self.clock = clock if clock is not None else runner.clock
        self.scheduler = Scheduler(config if config is not None else SchedulerConfig(), runner.capacity)
        self.last_step: StepRecord | None = None
        """What the last step did and where its time went; None if it had nothing to run."""
        self._live: dict[str, Group] = {}
        self._ledger = Ledger()
        self._log_calls = log_calls

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
        """Enqueue a request. Raises `ParameterError` if one of that id is still unfinished, or it can't be served."""
        if request.id in self._live:
            raise ParameterError(f"request id {request.id!r} is already in the engine: give each request its own")
        if request.cells_unbounded > request.cells_needed:
            self._check_shifts(request)
        group = Group(request, self.clock.now_ns() if request.enqueued_ns is None else request.enqueued_ns)
        self._live[request.id] = group
        for seq in group.unfinished:
            self.scheduler.add(seq)

    @property
    def minds_end(self) -> bool:
        """Whether it would do anything else if it was told that nothing more will arrive."""
        return self.scheduler.places.turns.minds_end

    def end_arrivals(self) -> None:
        """Nothing more will arrive: those that wait now are put in the order of `SchedulerConfig.drain`."""
        self.scheduler.places.turns.end()

    def _check_shifts(self, request: Request) -> None:
        outgrows = f"request {request.id!r} may outgrow its {request.max_cells} KV cells"
        if not self.runner.capacity.shifts:
            raise ParameterError(
                f"{outgrows}, and this memory can't drop tokens from the middle of a sequence: lower its max_tokens"
            )
        if self.scheduler.config.share_cells:  # what is shifted would move for all that share it
            raise ParameterError(f"{outgrows}, which needs share_cells off in the scheduler's configuration")

    def cancel(self, request_id: str) -> RequestOutput:
        """End an unfinished request between two steps. Raises KeyError for an unknown id."""
        group = self._live[request_id]
        ended = list(group.unfinished)
        for seq in ended:
            self.scheduler.cancel(seq, self.clock.now_ns())
        return self._outputs(ended)[0]

    def cancel_all(self) -> list[RequestOutput]:
        """End every unfinished request between two steps."""
        return [self.cancel(request_id) for request_id in list(self._live)]

    def cancel_waiting(self) -> list[str]:
        """Withdraw every request of which nothing has had a slot yet; returns their ids."""
        waiting = [group for group in self._live.values() if group.untouched]
        for group in waiting:
            for seq in group.unfinished:
                self.scheduler.withdraw(seq)
            del self._live[group.request.id]
        return [group.request.id for group in waiting]

    def step(self) -> list[RequestOutput]:
        """One iteration; returns the requests that finished in it."""
        self.last_step = None
        refused = self._make_room()
        if refused:
            return self._outputs(refused)
        start = self.clock.now_ns()
        plan = self.scheduler.schedule(start)
        if plan.empty:
            return []
        load = self.scheduler.load()
        planned = self.clock.now_ns()
        result = self.runner.run(plan)
        decoding = {work.seq for work in (*plan.decodes, *plan.padding)}
        self._book(plan, result, decoding, start)
        computed = self.clock.now_ns()
        finished = self.scheduler.update(plan, result, computed)
        updated = self.clock.now_ns()
        outputs = self._outputs(finished)
        padded = self.scheduler.places.padded
        while padded:
            self.runner.finish(padded.pop())
        scheduling_ns = (planned - start) + (updated - computed)
        if not self._live:
            self._check_slots()
        self.last_step = self._record(plan, result, load, start, scheduling_ns, len(finished), decoding)
        return outputs

    def forget_prefixes(self) -> None:
        """Drop what is kept of prompts that have ended, so that the next load starts from nothing."""
        self.scheduler.prefixes.clear()

    def __iter__(self) -> Iterator[RequestOutput]:
        while self.has_work:
            yield from self.step()

    def view(self) -> EngineView:
        return view_of(self.scheduler.places)

    def check_integrity(self) -> None:
        """Assert the scheduler's invariants, that no request is lost, and what slots hold. Slow: for tests."""
        self.scheduler.check_integrity()
        self._check_slots()
        unfinished = sum(len(group.unfinished) for group in self._live.values())
        assert unfinished == self.num_running + self.num_waiting

    def _check_slots(self) -> None:
        """Compare the books with the runner's memory. Raises `EngineError`."""
        for slot, tokens in self.scheduler.places.tokens_by_slot().items():
            if self.runner.num_tokens(slot) != tokens:
                raise EngineError(
                    f"slot {slot} holds {self.runner.num_tokens(slot)} tokens and should hold {tokens}: "
                    "this is a mistake in cbatch, please report it"
                )

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

    def _book(self, plan: StepPlan, result: StepResult, decoding: set[Sequence], start_ns: int) -> None:
        self._ledger.pause(plan.preempted, start_ns)
        self._ledger.open(plan.admitted, start_ns)
        for call in result.calls:
            self._ledger.add(call, decoding)

    def _outputs(self, ended: Iterable[Sequence]) -> list[RequestOutput]:
        """Of the requests whose last sequences these are."""
        outputs = []
        for seq in ended:
            group = self._live[seq.request.id]
            group.take(seq, seq.to_output(self.runner.finish(seq), self._ledger.close(seq)))
            if not group.unfinished:
                del self._live[seq.request.id]
                outputs.append(group.output())
        return outputs

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
            admitted=len(plan.admitted),
            finished=finished,
            failed=len(result.failed),
            decode_seqs=len(plan.decodes),
            padding_seqs=len(plan.padding),
            prefill_seqs=len(plan.prefills),
            prefill_tokens=sum(work.length for work in plan.prefills),
            output_tokens=sum([sampled.seq not in padding for sampled in result.sampled]),
            slots_busy=load.running,
            slots_total=self.scheduler.places.slots.total,
            waiting=load.waiting,
            kv_used_cells=self.scheduler.kv_used_after_step,
            kv_reserved_cells=load.kv_reserved_cells,
            kv_total_cells=kv.capacity.total_cells,
            kv_shared_cells=self.scheduler.kv_shared_after_step,
            kv_static_cells=load.running * kv.static_cells,
            preempted=len(plan.preempted),
            moved=len(plan.moves),
            restored_tokens=plan.restored_tokens,
            ideal_tokens=plan.ideal_tokens,
            restore_ns=result.restore_ns + result.move_ns,
            save_ns=result.save_ns,
            call_log=call_log(result.calls, decoding) if self._log_calls else (),
        )
