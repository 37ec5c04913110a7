"""Releases jobs at their arrival times, under a limit of requests in flight. Knows no engine and makes no requests."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace

from cbatch.clock import Clock, VirtualClock
from cbatch.errors import UsageError
from cbatch.types import EngineView, Job, RequestOutput, RowFault, RowRef, StepRecord

MOST_HELD = 10_000
"""Jobs that have arrived and that the driver hasn't taken; the rest is left where it comes from."""


@dataclass(frozen=True, slots=True)
class Pacing:
    """When jobs are released."""

    max_concurrency: int | None = None
    """Most requests in flight: released, and neither finished nor faulty. None is without limit."""
    closed_loop: bool = False
    """Arrival times don't count: each request arrives when there is a place for it under `max_concurrency`."""
    until_ns: int | None = None
    """Nothing arrives at this time or later."""

    def __post_init__(self) -> None:
        if self.max_concurrency is not None and self.max_concurrency < 1:
            raise UsageError(f"max-concurrency is {self.max_concurrency}: give 1 or more, or leave it out")
        if self.closed_loop and self.max_concurrency is None:
            raise UsageError("a closed loop needs --max-concurrency: how many requests to keep in flight")


class Arrivals:
    """A `Feed` on a virtual clock: every job is released at the very nanosecond at which it could be.

    Jobs come in order of arrival; `ref.arrival_ns` and `request.arrival_ns` are on the clock. It hears of the run as an
    `Observer`, so that requests that end make room for others.
    """

    def __init__(self, jobs: Iterable[Job], clock: Clock, pacing: Pacing | None = None) -> None:
        self._jobs = iter(jobs)
        self._clock = clock
        self._pacing = pacing if pacing is not None else Pacing()
        self._changed = threading.Condition()
        self._next: Job | None = None
        self._ended = False
        self._arrived: deque[Job] = deque()
        self._ready: deque[Job] = deque()
        self._in_flight = 0
        self._opened_ns = clock.now_ns()
        """When a place under the limit last became free."""
        self._num_arrived = 0

    @property
    def num_arrived(self) -> int:
        """Jobs whose time has come, released or not; any thread may ask."""
        return self._num_arrived

    def take(self, limit: int) -> list[Job]:
        with self._changed:
            self._advance()
            jobs = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
            self._changed.notify_all()
            return jobs

    def wait(self, timeout_s: float, until_ns: int | None = None) -> None:  # noqa: ARG002 (virtual time needs none)
        """Let time pass until the next arrival, or `until_ns` if that is sooner.

        In a closed loop no time brings an arrival: only an end does.
        """
        assert isinstance(self._clock, VirtualClock)
        if self._ready:
            return
        job = None if self._arrived or self._pacing.closed_loop else self._peek()
        ends = [at for at in (until_ns, None if job is None else arrival_of(job)) if at is not None]
        if ends:
            self._clock.advance(max(0, min(ends) - self._clock.now_ns()))

    @property
    def exhausted(self) -> bool:
        with self._changed:
            self._advance()
            return not (self._ready or self._arrived) and self._over

    def check(self) -> None:
        """What breaks the jobs off is raised where they are read."""

    def unreleased(self) -> Iterator[Job]:
        """What arrived and wasn't taken. Ends the feed."""
        while self._ready or self._arrived:
            yield (self._ready or self._arrived).popleft()
        while not self._pacing.closed_loop and (job := self._peek()) is not None:
            self._next = None
            self._num_arrived += 1
            yield job

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        """Of `Observer`: nothing is to be done."""

    def finished(self, ref: RowRef, output: RequestOutput) -> None:  # noqa: ARG002 (Observer)
        self._make_room()

    def fault(self, fault: RowFault) -> None:  # noqa: ARG002 (Observer)
        self._make_room()

    def _make_room(self) -> None:
        with self._changed:
            self._advance()  # what came while there was room
            self._in_flight -= 1
            self._opened_ns = self._clock.now_ns()
            self._changed.notify_all()

    def _advance(self) -> None:
        """Take in what is due, and release what there is room for."""
        while len(self._ready) + len(self._arrived) < MOST_HELD and (job := self._due()) is not None:
            self._arrived.append(job)
            self._num_arrived += 1
        while self._arrived and self._room():
            self._release(self._arrived.popleft())

    def _due(self) -> Job | None:
        job = self._peek()
        if job is None:
            return None
        if self._pacing.closed_loop:
            if not self._room(len(self._arrived)):
                return None
            job = _arriving(job, self._opened_ns)
        elif arrival_of(job) > self._clock.now_ns():
            return None
        self._next = None
        return job

    def _peek(self) -> Job | None:
        """The next job that hasn't arrived, if it is there and will ever arrive."""
        if self._next is None and not self._ended:
            self._next = self._pull()
        until, job = self._pacing.until_ns, self._next
        if until is None or job is None:
            return job
        if (self._opened_ns if self._pacing.closed_loop else arrival_of(job)) >= until:
            self._next, self._ended = None, True
        return self._next

    @property
    def _over(self) -> bool:
        """Whether nothing more will ever arrive."""
        return self._peek() is None

    def _pull(self) -> Job | None:
        job = next(self._jobs, None)
        self._ended = job is None
        return job

    def _room(self, more: int = 0) -> bool:
        limit = self._pacing.max_concurrency
        return limit is None or self._in_flight + more < limit

    def _release(self, job: Job) -> None:
        self._in_flight += 1
        if not isinstance(job, RowFault):
            ref, request = job
            job = ref, replace(request, enqueued_ns=self._stamp(request.arrival_ns))
        self._ready.append(job)

    def _stamp(self, arrival_ns: int) -> int:
        """When a job is released: on a virtual clock, as soon as it had come and there was room."""
        return max(arrival_ns, self._opened_ns) if self._pacing.max_concurrency is not None else arrival_ns


def arrival_of(job: Job) -> int:
    """When the job arrives, ns on the run's clock."""
    return job.ref.arrival_ns if isinstance(job, RowFault) else job[0].arrival_ns


def _arriving(job: Job, at_ns: int) -> Job:
    """The job, arriving at another time."""
    if isinstance(job, RowFault):
        return replace(job, ref=replace(job.ref, arrival_ns=at_ns))
    ref, request = job
    return replace(ref, arrival_ns=at_ns), replace(request, arrival_ns=at_ns)
