"""The thread that makes finished rows durable while the engine's is in native calls. Knows no tables and no files."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

COMMIT_S = 0.5
"""What is finished waits no longer than this to be committed."""
COMMIT_ROWS = 1_000
"""And no longer than until so many wait."""
MOST_WAITING = 4_000
"""Rows that the thread may be behind; then whoever adds one waits for it."""


class Committer:
    """Hands what is added to `commit(rows, steps)`, on a thread of its own, twice a second or more often.

    What `commit` raises ends the thread, and is raised where the next thing is added.
    """

    def __init__(self, commit: Callable[[list[Any], list[Any]], None]) -> None:
        self._commit = commit
        self._changed = threading.Condition()
        self._rows: list[Any] = []
        self._steps: list[Any] = []
        self._closing = False
        self.error: BaseException | None = None
        """What ended the thread."""
        self._told = False
        self._thread = threading.Thread(target=self._run, name="committer", daemon=True)
        self._thread.start()

    def add_row(self, row: Any) -> None:
        """Take a row; cheap, unless the thread is far behind."""
        with self._changed:
            assert not self._closing
            self._tell()
            self._rows.append(row)
            self._wake(len(self._rows))

    def add_step(self, step: Any) -> None:
        """Take a step, likewise."""
        with self._changed:
            assert not self._closing
            self._tell()
            self._steps.append(step)
            self._wake(len(self._steps))

    def close(self) -> None:
        """Commit what is left and end the thread. Raises what ended it before, unless that was told. Once is enough."""
        with self._changed:
            self._closing = True
            self._changed.notify_all()
        self._thread.join()
        if not self._told:
            self._tell()

    def _tell(self) -> None:
        """Raise what ended the thread."""
        if self.error is not None:
            self._told = True
            raise self.error

    def _wake(self, waiting: int) -> None:
        if waiting == COMMIT_ROWS:
            self._changed.notify_all()
        elif waiting >= MOST_WAITING:
            self._changed.wait_for(lambda: self.error is not None or self._waiting < MOST_WAITING)

    @property
    def _waiting(self) -> int:
        return max(len(self._rows), len(self._steps))

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._closing or self._waiting >= COMMIT_ROWS, timeout=COMMIT_S)
                closing = self._closing
                rows, self._rows = self._rows, []
                steps, self._steps = self._steps, []
                self._changed.notify_all()
            try:
                self._commit(rows, steps)
            except BaseException as error:  # noqa: BLE001  (handed to whoever adds)
                with self._changed:
                    self.error = error
                    self._changed.notify_all()
                return
            if closing:
                return
