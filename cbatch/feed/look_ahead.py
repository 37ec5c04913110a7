"""Reads jobs ahead of the engine on a thread, up to a bound: memory doesn't grow with the number of rows."""

from __future__ import annotations

import threading
from collections import deque
from collections.abc import Iterable

from cbatch.types import Job

WINDOW = 10_000
"""Rows read ahead at most; what planning may look at."""


class LookAhead:
    """A window over a stream of jobs, filled by a thread of its own. A `Feed`: a job arrives when it has been read.

    An exception of the stream ends it; `check` raises it once the jobs before it are dealt with.
    """

    def __init__(self, jobs: Iterable[Job], *, window: int = WINDOW) -> None:
        self._window = window
        self._refill_at = window * 7 // 8  # many at once: each change of threads costs the engine time
        self._ready: deque[Job] = deque()
        self._changed = threading.Condition()
        self._ended = False
        self._closed = False
        self._error: Exception | None = None
        self._thread = threading.Thread(target=self._fill, args=(jobs,), name="look-ahead", daemon=True)
        self._thread.start()

    def _fill(self, jobs: Iterable[Job]) -> None:
        try:
            for job in jobs:
                with self._changed:
                    if len(self._ready) >= self._window:
                        self._changed.wait_for(lambda: self._closed or len(self._ready) <= self._refill_at)
                    if self._closed:
                        return
                    self._ready.append(job)
                    if len(self._ready) in (1, self._window):
                        self._changed.notify_all()
        except Exception as error:  # noqa: BLE001  (handed to whoever checks)
            self._error = error
        finally:
            with self._changed:
                self._ended = True
                self._changed.notify_all()

    def first_window(self, patience_s: float) -> tuple[list[Job], bool]:
        """A look at the first jobs, which stay in the feed, and whether they are all: else it's a full window.

        A slow stream is waited for until its first job, and then `patience_s` more.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._over or self._ready)
            self._changed.wait_for(lambda: self._over or len(self._ready) >= self._window, timeout=patience_s)
            return list(self._ready), self._ended

    @property
    def _over(self) -> bool:
        return self._ended or self._closed

    def take(self, limit: int) -> list[Job]:
        """Up to `limit` jobs that are ready; never waits."""
        with self._changed:
            jobs = [self._ready.popleft() for _ in range(min(limit, len(self._ready)))]
            if len(self._ready) <= self._refill_at:
                self._changed.notify_all()
            return jobs

    def wait(self, timeout_s: float, until_ns: int | None = None) -> None:
        """Sleep until a job is ready or the time is up; without `until_ns` also until the stream has ended."""
        with self._changed:
            self._changed.wait_for(lambda: self._ready or (until_ns is None and self._over), timeout=timeout_s)

    @property
    def num_ready(self) -> int:
        """Jobs read and not taken."""
        return len(self._ready)

    @property
    def exhausted(self) -> bool:
        """Whether the stream has ended (or was closed) and every job was taken."""
        with self._changed:
            return self._over and not self._ready

    def check(self) -> None:
        """Raise what broke the stream off, if anything did."""
        if self._error is not None:
            raise self._error

    def close(self) -> None:
        """Stop reading ahead."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()
