"""Runs suspects, rows that may have killed an earlier worker, a group at a time before all else. Knows no processes."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Iterable
from typing import Protocol

from cbatch.feed.look_ahead import LookAhead
from cbatch.types import EngineView, Job, RequestOutput, RowFault, RowRef, StepRecord

CRASHED = "crashed"
"""Code of the fault of a row that killed workers."""
_ALL = 1 << 30


class Watcher(Protocol):
    """Whoever tells how the run goes on."""

    def beat(self) -> None:
        """The driver's loop goes on."""
        ...

    def suspend(self) -> None:
        """From its return until `resume` no row is being tokenised, so that suspects have no company."""
        ...

    def resume(self) -> None: ...

    def cleared(self, number: int) -> None:
        """A suspect has ended without harm, or isn't among the rows any more."""
        ...


class Quarantine:
    """A `Feed` over another one, and an `Observer`: releases each group of suspects once the one before it has ended.

    Groups hold row numbers. The rows come in ascending order, and those that are met before the last suspect are kept
    for later: as suspects have been in a slot, no more of them than an earlier worker had taken or looked ahead at.
    After the last group it is transparent, but for the faults of rows that are `CRASHED`, which come once a row was
    answered or none is left: workers that die at whatever they do would leave behind rows that aren't to blame.
    """

    def __init__(self, feed: LookAhead, groups: Iterable[Iterable[int]], watcher: Watcher) -> None:
        self._feed = feed
        self._watcher = watcher
        self._groups = deque(sorted(group) for group in groups)
        self._suspects = frozenset(number for group in self._groups for number in group)
        self._met: dict[int, Job] = {}
        """Suspects that wait for their group's turn."""
        self._others: deque[Job] = deque()
        self._crashed: list[Job] = []
        self._furthest = 0
        """Number of the last row met."""
        self._running: set[int] = set()
        """The group that has been released, without those that have ended."""
        self._in_flight = 0
        self._answered = False

    def take(self, limit: int) -> list[Job]:
        """Up to `limit` jobs. Waits only for a row that is being tokenised, and that while nothing runs."""
        self._watcher.beat()
        jobs = self._next_group(limit) if self._groups or self._running else self._next_others(limit)
        self._in_flight += len(jobs)
        return jobs

    def wait(self, timeout_s: float, until_ns: int | None = None) -> None:
        self._watcher.beat()
        self._feed.wait(timeout_s, until_ns)

    @property
    def exhausted(self) -> bool:
        return not (self._met or self._others or self._crashed) and self._feed.exhausted

    def check(self) -> None:
        """Raise what broke the feed off, if anything did."""
        self._feed.check()

    def first_window(self, patience_s: float) -> tuple[list[Job], bool]:
        """As of `LookAhead`. Before the first `take`."""
        return self._feed.first_window(patience_s)

    @property
    def num_ready(self) -> int:
        """Jobs read and not taken."""
        return len(self._met) + len(self._others) + len(self._crashed) + self._feed.num_ready

    def close(self) -> None:
        """Stop reading ahead."""
        self._feed.close()

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        """Of `Observer`: nothing is to be done."""

    def finished(self, ref: RowRef, output: RequestOutput) -> None:  # noqa: ARG002 (Observer)
        self._answered = True
        self._ended(ref.number)

    def fault(self, fault: RowFault) -> None:
        self._ended(fault.ref.number)

    def _ended(self, number: int) -> None:
        self._in_flight -= 1
        if number in self._suspects:
            self._watcher.cleared(number)
        if number in self._running:
            self._running.remove(number)
            if not self._running:
                self._watcher.resume()

    def _next_group(self, limit: int) -> list[Job]:
        """The next group that any row of is there, once the one before it has ended."""
        while self._groups and not self._running and limit > 0:
            self._meet()
            missing = [number for number in self._groups[0] if number not in self._met]
            if missing and missing[-1] > self._furthest and not self._feed.exhausted:
                break
            for number in missing:
                self._watcher.cleared(number)
            self._release(limit)
        return [self._met.pop(number) for number in sorted(self._running) if number in self._met]

    def _release(self, limit: int) -> None:
        there = [number for number in self._groups.popleft() if number in self._met]
        if there[limit:]:
            self._groups.appendleft(there[limit:])
        if there:
            self._watcher.suspend()
            self._running.update(there[:limit])

    def _meet(self) -> None:
        for job in self._feed.take(_ALL):
            self._furthest = _number(job)
            if self._furthest in self._suspects:
                self._met[self._furthest] = job
            else:
                self._others.append(job)

    def _next_others(self, limit: int) -> list[Job]:
        kept = [self._others.popleft() for _ in range(min(limit, len(self._others)))]
        jobs: list[Job] = []
        for job in (*kept, *self._feed.take(limit - len(kept))):
            (self._crashed if _has_crashed(job) else jobs).append(job)
        if self._answered or (self._in_flight == 0 and not jobs and self._feed.exhausted):
            room = max(0, limit - len(jobs))
            jobs += self._crashed[:room]
            del self._crashed[:room]
        return jobs


def _number(job: Job) -> int:
    return job.ref.number if isinstance(job, RowFault) else job[0].number


def _has_crashed(job: Job) -> bool:
    return isinstance(job, RowFault) and job.code == CRASHED
