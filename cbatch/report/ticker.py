"""A thread that does one thing every so often. Knows nothing of what it does."""

from __future__ import annotations

import threading
from collections.abc import Callable
from contextlib import suppress


class Ticker:
    """Calls `tick` every `every_s` seconds from `start` to `stop`, on a thread called `name`; never after `stop`.

    An `OSError` of a tick, such as a terminal that has gone away, is its last.
    """

    def __init__(self, name: str, every_s: float, tick: Callable[[], None]) -> None:
        self._every_s = every_s
        self._tick = tick
        self._over = threading.Event()
        self._thread = threading.Thread(target=self._run, name=name, daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        """Wait for a tick that is going on, then end."""
        self._over.set()
        self._thread.join()

    def _run(self) -> None:
        with suppress(OSError):
            while not self._over.wait(self._every_s):
                self._tick()
