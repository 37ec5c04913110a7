"""Ctrl-C once: finish what runs. Twice, or SIGTERM or SIGHUP: stop now. Nothing that is done is lost either way."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Callable
from types import FrameType, TracebackType

_STOP_NOW = (signal.SIGTERM, signal.SIGHUP)


class Interrupts:
    """While entered, signals call `stop` or `abort`, each at most once, on a thread of its own.

    A Python signal handler would wait until a native decode call returns, which may take many seconds; the
    interpreter's wake-up descriptor is written at once. Enter it on the main thread.
    """

    def __init__(
        self, stop: Callable[[], None], abort: Callable[[], None], *, interrupt: signal.Signals = signal.SIGINT
    ) -> None:
        """`interrupt` is what Ctrl-C arrives as."""
        self._stop = stop
        self._abort = abort
        self._interrupt = interrupt
        self.received: list[signal.Signals] = []

    def __enter__(self) -> Interrupts:
        self._reader, self._writer = os.pipe()
        os.set_blocking(self._writer, False)
        self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        # nohup and shells' background jobs have signals ignored, and that stays so
        heard = [n for n in (self._interrupt, *_STOP_NOW) if signal.getsignal(n) is not signal.SIG_IGN]
        self._old_handlers = {number: signal.signal(number, _nothing) for number in heard}
        self._thread = threading.Thread(target=self._listen, name="interrupts", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        # once interrupted, the process is about to end with its own exit code, which one more signal must not change
        for number, handler in self._old_handlers.items():
            signal.signal(number, signal.SIG_IGN if self.received else handler)
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._writer)
        self._thread.join()
        os.close(self._reader)

    def _listen(self) -> None:
        while data := os.read(self._reader, 16):
            for number in data:
                self._take(signal.Signals(number))

    def _take(self, number: signal.Signals) -> None:
        if number not in self._old_handlers:
            return
        self.received.append(number)
        if number in _STOP_NOW or len(self.received) == 2:
            self._abort()
        elif len(self.received) == 1:
            self._stop()


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Python's own part of handling the signal: none."""
