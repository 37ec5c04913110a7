"""The loop: release what has arrived, step the engine, hand on what finished. One loop serves every command."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import Protocol

from cbatch.engine import Engine, fit_to_context
from cbatch.errors import Interrupted
from cbatch.types import Job, Observer, Request, RowFault, RowRef

_POLL_S = 0.1


class Feed(Protocol):
    """Where jobs come from, in order of arrival."""

    def take(self, limit: int) -> list[Job]:
        """Up to `limit` jobs that have arrived; never waits."""
        ...

    def wait(self, timeout_s: float) -> None:
        """Sleep until a job may have arrived, at most that long."""
        ...

    @property
    def exhausted(self) -> bool: ...

    def check(self) -> None:
        """Raise what broke the feed off, if anything did."""
        ...


class Ending(str, Enum):
    """How a run ended."""

    COMPLETE = "complete"  # every row has ended, well or not
    STOPPED = "stopped"  # what ran was finished, the rest was left
    ABORTED = "aborted"  # what ran was dropped


@dataclass(frozen=True, slots=True)
class Outcome:
    """How a run ended, and how many rows that had left the feed are without a result."""

    ending: Ending
    rows_left: int


class Driver:
    """Feeds an engine until the feed is exhausted and everything has finished.

    `max_cells` is the most KV cells any request may ever fill; `backlog` how many requests may wait in the engine.
    """

    def __init__(
        self, engine: Engine, feed: Feed, observers: Sequence[Observer], *, max_cells: int, backlog: int = 10_000
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._observers = observers
        self._max_cells = max_cells
        self._backlog = backlog
        self._refs: dict[str, RowRef] = {}
        self._stopping = False
        self._withdrawn = 0
        self.max_tokens_cut = 0
        """Requests whose max_tokens was cut to what the context holds."""

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
            if self._engine.has_work:
                self._step()
            elif self._feed.exhausted and not self._withdrawn:
                self._feed.check()
                return Outcome(Ending.COMPLETE, 0)
            elif self._stopping:
                return Outcome(Ending.STOPPED, self._withdrawn)
            else:
                self._feed.wait(_POLL_S)

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

    def _start(self, ref: RowRef, request: Request) -> None:
        fitted = fit_to_context(request, self._max_cells)
        if isinstance(fitted, str):
            self._fault(RowFault(ref, "prompt_too_long", fitted))
            return
        self.max_tokens_cut += fitted is not request
        self._refs[request.id] = ref
        self._engine.add(fitted)

    def _step(self) -> None:
        for output in self._engine.step():
            ref = self._refs.pop(output.id)
            for observer in self._observers:
                observer.finished(ref, output)
        record = self._engine.last_step
        if record is not None:
            for observer in self._observers:
                observer.step(record, self._engine.view)

    def _fault(self, fault: RowFault) -> None:
        for observer in self._observers:
            observer.fault(fault)
