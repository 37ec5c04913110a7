"""The loop: release what has arrived, step the engine, hand on what finished. One loop serves every command."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from enum import Enum

from cbatch.config import REFUSE, Overflow
from cbatch.engine import Engine, fit_to_context
from cbatch.errors import Interrupted
from cbatch.feed import Feed
from cbatch.types import Observer, Request, RequestOutput, RowFault, RowRef

_POLL_S = 0.1


class Ending(str, Enum):
    """How a run ended."""

    COMPLETE = "complete"  # every row has ended, well or not
    TIME_UP = "time_up"  # the deadline came; what hadn't finished was cancelled
    STOPPED = "stopped"  # what ran was finished, the rest was left
    ABORTED = "aborted"  # what ran was dropped


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and how many rows that had left the feed are without a result."""

    ending: Ending
    rows_left: int


class Driver:
    """Feeds an engine until the feed is exhausted and everything has finished.

    `max_cells` is the most KV cells any request may ever fill, `overflow` what becomes of those that need more;
    `backlog` is how many requests may wait in the engine. At `deadline_ns`, on the engine's clock, every unfinished
    request is cancelled, between two steps.
    """

    def __init__(
        self,
        engine: Engine,
        feed: Feed,
        observers: Sequence[Observer],
        *,
        max_cells: int,
        overflow: Overflow = REFUSE,
        backlog: int = 10_000,
        deadline_ns: int | None = None,
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._observers = observers
        self._max_cells = max_cells
        self._overflow = overflow
        self._backlog = backlog
        self._deadline_ns = deadline_ns
        self._refs: dict[str, RowRef] = {}
        self._stopping = False
        self._withdrawn = 0
        self.max_tokens_cut = 0
        """Requests whose max_tokens was cut to what the context holds."""
        self.prompts_cut = 0
        """Requests whose prompt was cut."""
        self.outgrown = 0
        """Requests that went on past the context, and lost sight of tokens."""

    @property
    def stopping(self) -> bool:
        """Whether it was told to stop, or to abort."""
        return self._stopping

    def stop(self) -> None:
        """Start no more rows and finish what runs. Any thread may call it."""
        self._stopping = True

    def abort(self) -> None:
        """Stop as soon as possible, dropping what runs. Any thread may call it."""
        self._stopping = True
        self._engine.runner.abort()

    def run(self) -> Outcome:
        """Returns when all is done, or has been stopped. Errors of the feed come after the rows before them."""
        try:
            return self._loop()
        except Interrupted:
            return Outcome(Ending.ABORTED, self._withdrawn + len(self._refs))

    def _loop(self) -> Outcome:
        while True:
            if self._stopping:
                self._withdraw()
            else:
                self._release()
            if self._time_is_up:
                self._hand_on(self._engine.cancel_all())
                return Outcome(Ending.STOPPED if self._stopping else Ending.TIME_UP, self._withdrawn)
            if self._engine.has_work:
                if not self._step():
                    self._wait()
            elif self._feed.exhausted and not self._withdrawn:
                self._feed.check()
                return Outcome(Ending.COMPLETE, 0)
            elif self._stopping:
                return Outcome(Ending.STOPPED, self._withdrawn)
            else:
                self._feed.wait(_POLL_S)

    def _wait(self) -> None:
        """Until the engine, which has work but nothing to run yet, may go on."""
        wakes_ns = self._engine.wakes_ns
        assert wakes_ns is not None
        left_s = max(0, wakes_ns - self._engine.clock.now_ns()) / 1e9
        self._feed.wait(min(_POLL_S, left_s), wakes_ns)

    @property
    def _time_is_up(self) -> bool:
        """Whether the deadline has passed and caught something."""
        if self._deadline_ns is None or self._engine.clock.now_ns() < self._deadline_ns:
            return False
        return self._engine.has_work or not self._feed.exhausted

    def _withdraw(self) -> None:
        for request_id in self._engine.cancel_waiting():
            del self._refs[request_id]
            self._withdrawn += 1

    def _release(self) -> None:
        for job in self._feed.take(self._backlog - self._engine.num_waiting):
            if isinstance(job, RowFault):
                self._fault(job)
            else:
                self._start(*job)
        if self._engine.minds_end and self._feed.exhausted:
            self._engine.end_arrivals()

    def _start(self, ref: RowRef, request: Request) -> None:
        fitted = fit_to_context(request, self._max_cells, self._overflow)
        if isinstance(fitted, str):
            self._fault(RowFault(ref, "prompt_too_long", fitted))
            return
        self.max_tokens_cut += fitted.sampling.max_tokens < request.sampling.max_tokens
        self.prompts_cut += fitted.truncated_tokens > 0
        self._refs[request.id] = ref
        self._engine.add(fitted)

    def _step(self) -> bool:
        """Whether anything was done."""
        outputs = self._engine.step()
        self._hand_on(outputs)
        record = self._engine.last_step
        if record is not None:
            for observer in self._observers:
                observer.step(record, self._engine.view)
        return bool(outputs) or record is not None

    def _hand_on(self, outputs: Iterable[RequestOutput]) -> None:
        for output in outputs:
            ref = self._refs.pop(output.id)
            self.outgrown += any(each.dropped_tokens > 0 for each in (output, *output.others))
            for observer in self._observers:
                observer.finished(ref, output)

    def _fault(self, fault: RowFault) -> None:
        for observer in self._observers:
            observer.fault(fault)
