"""What the driver is fed from. Knows no engine."""

from __future__ import annotations

from typing import Protocol

from cbatch.types import Job


class Feed(Protocol):
    """Where jobs come from, in order of arrival."""

    def take(self, limit: int) -> list[Job]:
        """Up to `limit` jobs that have arrived; never waits."""
        ...

    def wait(self, timeout_s: float, until_ns: int | None = None) -> None:
        """Sleep until a job may have arrived, at most that long.

        `until_ns` says that there is something to do then, whatever comes: the end of the feed is no reason to wake,
        and virtual time, which needs no `timeout_s`, passes no further.
        """
        ...

    @property
    def exhausted(self) -> bool:
        """Whether every job that will ever come was taken."""
        ...

    def check(self) -> None:
        """Raise what broke the feed off, if anything did."""
        ...
