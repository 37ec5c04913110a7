"""One replay: the driver on a feed with arrival times, and what becomes of requests that never got to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

from cbatch.config import REFUSE, Overflow
from cbatch.driver import Driver, Ending, Outcome
from cbatch.engine import Engine, fit_to_context
from cbatch.feed import Arrivals
from cbatch.types import Job, Observer, Request, RowFault


class Replay:
    """Plays a feed to its end, or to `deadline_ns` on the engine's clock.

    Every request that arrived reaches the observers: one that the deadline caught before it was even released is
    cancelled as the others are, so that nothing drops out of the figures.
    """

    def __init__(
        self,
        engine: Engine,
        feed: Arrivals,
        observers: Sequence[Observer],
        *,
        max_cells: int,
        overflow: Overflow = REFUSE,
        deadline_ns: int | None = None,
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._observers = observers
        self.driver = Driver(
            engine, feed, [feed, *observers], max_cells=max_cells, overflow=overflow, deadline_ns=deadline_ns
        )

    def run(self) -> Outcome:
        """Returns when all is told, or has been stopped. Errors of the feed come after the requests before them."""
        self._engine.forget_prefixes()  # of warm-ups and of replays before
        outcome = self.driver.run()
        if outcome.ending is not Ending.TIME_UP:
            return outcome
        # to read what is left may take long, and no request lasts longer for it
        ended_ns = self._engine.clock.now_ns()
        for job in self._feed.unreleased():
            if self.driver.stopping:
                return replace(outcome, ending=Ending.STOPPED)
            self._cancel(job, ended_ns)
        self._feed.check()
        return outcome

    def _cancel(self, job: Job, ended_ns: int) -> None:
        if isinstance(job, RowFault):
            for observer in self._observers:
                observer.fault(job)
            return
        ref, request = job
        told_ns = ended_ns if request.enqueued_ns is None else min(request.enqueued_ns, ended_ns)
        self._engine.add(replace(request, enqueued_ns=told_ns))
        output = replace(self._engine.cancel(request.id), finished_ns=ended_ns)
        for observer in self._observers:
            observer.finished(ref, output)


def warm_up(
    engine: Engine,
    requests: Iterable[Request],
    *,
    max_cells: int,
    wanted: Callable[[], bool],
    overflow: Overflow = REFUSE,
) -> None:
    """Run copies of `requests` all at once, unobserved, as long as `wanted()`."""
    for number, request in enumerate(requests):
        fitted = fit_to_context(request, max_cells, overflow)
        if not isinstance(fitted, str):
            engine.add(replace(fitted, id=f"warm-up {number}", arrival_ns=0, enqueued_ns=None))
    while engine.has_work and wanted():
        engine.step()
    engine.cancel_all()
