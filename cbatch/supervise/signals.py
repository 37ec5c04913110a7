"""What a supervising process hears: the user's wishes, which its worker carries out, and that a child has changed.

Ctrl-C at a terminal reaches parent and worker at once, and `kill` the parent only. So that each counts once, the worker
is deaf to SIGINT and the parent passes it on as `INTERRUPT`.
"""

from __future__ import annotations

import os
import signal
from types import FrameType, TracebackType

INTERRUPT = signal.SIGUSR1
"""Stands for Ctrl-C in a supervised worker."""
_STOP_NOW = (signal.SIGTERM, signal.SIGHUP)


class ParentSignals:
    """While entered, signals wake whoever selects on `descriptor`, and are read there. For a process of one thread.

    What was ignored before, as under nohup, stays ignored.
    """

    def __enter__(self) -> ParentSignals:
        self.descriptor, self._writer = os.pipe()
        os.set_blocking(self.descriptor, False)
        os.set_blocking(self._writer, False)
        wishes = [n for n in (signal.SIGINT, *_STOP_NOW) if signal.getsignal(n) is not signal.SIG_IGN]
        self._passed_on: set[signal.Signals] = set()
        self._owner = os.getpid()
        self._old_fd = signal.set_wakeup_fd(self._writer, warn_on_full_buffer=False)
        self._old_handlers = {number: signal.signal(number, _nothing) for number in (*wishes, signal.SIGCHLD)}
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if os.getpid() != self._owner:  # a worker on its way out
            return
        # once told to stop, the process is about to end with its own exit code, which one more signal must not change
        for number, handler in self._old_handlers.items():
            signal.signal(number, signal.SIG_IGN if self._passed_on and number != signal.SIGCHLD else handler)
        self._close()

    def fork(self) -> int:
        """As `os.fork`; the child has the handlers from before, but `INTERRUPT` in the place of SIGINT."""
        old = signal.pthread_sigmask(signal.SIG_BLOCK, {INTERRUPT, *self._old_handlers})
        pid = os.fork()
        if pid == 0:
            for number, handler in self._old_handlers.items():
                signal.signal(number, handler)
            if signal.SIGINT in self._old_handlers:
                signal.signal(signal.SIGINT, _nothing)
                signal.signal(INTERRUPT, signal.default_int_handler)
            self._close()
        signal.pthread_sigmask(signal.SIG_SETMASK, old)
        return pid

    def pass_on(self, pid: int) -> None:
        """Send the process what has come since the last call: the first Ctrl-C, and the first wish to stop now.

        A second Ctrl-C is one of those: two of one signal may arrive as one.
        """
        for number in self._read():
            if number == signal.SIGINT:
                number = signal.SIGTERM if INTERRUPT in self._passed_on else INTERRUPT
            if number in (INTERRUPT, *_STOP_NOW) and number not in self._passed_on:
                os.kill(pid, number)
                self._passed_on.add(number)

    @property
    def stop_wanted(self) -> bool:
        """Whether the user has asked for an end."""
        return bool(self._passed_on)

    def _read(self) -> list[signal.Signals]:
        try:
            return [signal.Signals(number) for number in os.read(self.descriptor, 4096)]
        except BlockingIOError:
            return []

    def _close(self) -> None:
        signal.set_wakeup_fd(self._old_fd)
        os.close(self._writer)
        os.close(self.descriptor)


def _nothing(_number: int, _frame: FrameType | None) -> None:
    """Python's own part of handling the signal: none."""
