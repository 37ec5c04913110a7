"""Releases jobs at their arrival times on a real clock, with a thread that is awake at each of them."""

from __future__ import annotations

import threading
from collections.abc import Iterator

from cbatch.clock import Clock
from cbatch.feed.arrivals import MOST_HELD, Arrivals, Pacing, arrival_of
from cbatch.feed.look_ahead import LookAhead
from cbatch.types import Job

_POLL_S = 0.05
_PATIENCE_S = 5.0
"""At the end, how long the source may give nothing before it counts as one that waits for somebody, as a pipe does."""


class PacedArrivals(Arrivals):
    """As `Arrivals`, in real time: a job is stamped when it really was released, be that late.

    The engine's thread is inside native code most of the time, so a thread of its own releases what is due; whichever
    of the two comes first does it.
    """

    def __init__(self, jobs: LookAhead, clock: Clock, pacing: Pacing | None = None) -> None:
        super().__init__((), clock, pacing)
        self._source = jobs
        self._closed = False
        self._thread = threading.Thread(target=self._run, name="arrivals", daemon=True)

    def start(self) -> None:
        """Begin to release; the clock should be at 0 now."""
        self._opened_ns = self._clock.now_ns()
        self._thread.start()

    def close(self) -> None:
        """Release nothing more on the thread."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
        self._thread.join()

    def wait(self, timeout_s: float, until_ns: int | None = None) -> None:
        """Sleep until something is released or the time is up; without `until_ns` also until the feed has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or (until_ns is None and self._over), timeout=timeout_s)

    def check(self) -> None:
        self._source.check()

    def unreleased(self) -> Iterator[Job]:
        """As of `Arrivals`. What a source never gives, though it hasn't ended, can't be told."""
        self.close()
        while True:
            yield from super().unreleased()
            if self._over or self._pacing.closed_loop:
                return
            self._source.wait(_PATIENCE_S)
            if self._peek() is None:
                return

    @property
    def _over(self) -> bool:
        return self._peek() is None and (self._ended or self._source.exhausted)

    def _run(self) -> None:
        while True:
            with self._changed:
                self._advance()
                if self._ready:
                    self._changed.notify_all()
                if self._closed or self._over:
                    self._changed.notify_all()
                    return
                starved = self._next is None
                if not starved:
                    self._changed.wait(self._until_next_s())
            if starved:
                self._source.wait(_POLL_S)

    def _until_next_s(self) -> float | None:
        """How long nothing will be due; None where only an end of a request changes that."""
        if self._pacing.closed_loop or self._next is None or len(self._ready) + len(self._arrived) >= MOST_HELD:
            return None
        return max(0, arrival_of(self._next) - self._clock.now_ns()) / 1e9

    def _pull(self) -> Job | None:
        return next(iter(self._source.take(1)), None)

    def _stamp(self, arrival_ns: int) -> int:  # noqa: ARG002  (real time is what it is)
        return self._clock.now_ns()
