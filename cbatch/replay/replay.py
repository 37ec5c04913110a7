"""One replay: the driver on a feed with arrival times, and what becomes of requests that never got to run."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace

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
        deadline_ns: int | None = None,
    ) -> None:
        self._engine = engine
        self._feed = feed
        self._observers = observers
        self.driver = Driver(engine, feed, [feed, *observers], max_cells=max_cells, deadline_ns=deadline_ns)

    def run(self) -> Outcome:
        outcome = self.driver.run()
        if outcome.ending is Ending.TIME_UP:
            for job in self._feed.unreleased():
                self._cancel(job)
        return outcome

    def _cancel(self, job: Job) -> None:
        if isinstance(job, RowFault):
            for observer in self._observers:
                observer.fault(job)
            return
        ref, request = job
        self._engine.add(request)
        output = self._engine.cancel(request.id)
        for observer in self._observers:
            observer.finished(ref, output)


def warm_up(engine: Engine, requests: Iterable[Request], *, max_cells: int, wanted: Callable[[], bool]) -> None:
    """Run copies of `requests` all at once, unobserved, as long as `wanted()`."""
    for number, request in enumerate(requests):
        fitted = fit_to_context(request, max_cells)
        if not isinstance(fitted, str):
            engine.add(replace(fitted, id=f"warm-up {number}", arrival_ns=0, enqueued_ns=None))
    while engine.has_work and wanted():
        engine.step()
    engine.cancel_all()
