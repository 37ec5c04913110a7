"""What a worker has from the process that watches it. Imports nothing that the worker works with."""

from __future__ import annotations

import os
import signal
import threading
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import BinaryIO

from cbatch.supervise.heartbeat import Heartbeat

ORPHAN_GRACE_S = 5.0
"""How long a worker may take to end after its parent has died."""


def _nothing() -> None:
    """While nothing runs that could be aborted."""


@dataclass(slots=True)
class Link:
    """Given to each worker."""

    heartbeat: Heartbeat = field(default_factory=Heartbeat)
    attempt: int = 0
    """Workers before this one."""
    suspects: Sequence[Sequence[int]] = ()
    """Numbers of rows that must run a group at a time, before all others."""
    condemned: Mapping[int, str] = field(default_factory=dict)
    """Numbers of rows that mustn't be run, with the reason."""
    stdin: BinaryIO | None = None
    """To be read in the place of standard input, where there is one."""
    stdin_head: Callable[[int], bytes] | None = None
    """The first bytes that there were to be read there: so many, waiting for them, or all."""
    interrupt: signal.Signals = signal.SIGINT
    """What Ctrl-C arrives as."""
    on_orphaned: Callable[[], None] = _nothing
    """Called on a thread of its own when the parent has died; soon after, the process is ended."""

    @classmethod
    def alone(cls) -> Link:
        """Of a job without a parent: what the heartbeat is told, nobody hears."""
        return cls()

    def watch_parent(self, pipe: int) -> None:
        """Mind the parent, which alone has the other end of `pipe` open."""
        threading.Thread(target=self._await_end, args=(pipe,), name="orphaned", daemon=True).start()

    def _await_end(self, pipe: int) -> None:
        os.read(pipe, 1)
        try:
            self.on_orphaned()
        finally:
            time.sleep(ORPHAN_GRACE_S)
            os._exit(1)
