"""A small parent that watches its worker: tells of its death, and starts another one that goes on.

It has one thread, and imports neither numpy nor the native library, so that nothing but a signal can end it.
"""

from __future__ import annotations

import os
import select
import signal
import sys
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

from cbatch.errors import RunFailed
from cbatch.supervise.death import Death
from cbatch.supervise.heartbeat import Heartbeat
from cbatch.supervise.link import Link
from cbatch.supervise.signals import INTERRUPT, ParentSignals
from cbatch.supervise.spool import Spool
from cbatch.supervise.stall import StallTimer
from cbatch.supervise.suspects import Suspects

EXIT_INTERRUPTED = 130
_POLL_S = 1.0
_POLL_FULL_S = 0.05
"""While the worker is behind with standard input: nothing wakes us when it catches up."""
_STOPS = (INTERRUPT, signal.SIGTERM, signal.SIGHUP)
_SHOW_CURSOR = "\x1b[?25h\n"


def supervise(
    work: Callable[[Link], int],
    *,
    stall_timeout_s: float | None,
    say: Callable[[str], None],
    stdin_fd: int | None = None,
    spool_dir: Path | None = None,
    again: str = "the same command",
) -> int:
    """Run `work` in a worker, again after each death by a signal; returns the exit code that it ends with.

    Returns twice: in the parent, and in each worker, where exceptions of `work` come out as well. `stall_timeout_s` is
    how long a worker may show no sign of life; None is without limit. `stdin_fd` is kept in a file in `spool_dir`, and
    read by workers through their link. `say` takes a line for the user, and may raise `OSError` where nobody reads it.
    `again` is what the user is told to give to go on.

    Raises `RunFailed` where another worker would be of no use, and where standard input can't be kept.
    """
    heartbeat = Heartbeat()
    spool = None if stdin_fd is None else Spool(stdin_fd, spool_dir, heartbeat)
    with ParentSignals() as signals:
        outcome = _Supervisor(heartbeat, spool, signals, stall_timeout_s, say, again).run()
        return work(outcome) if isinstance(outcome, Link) else outcome


class _Supervisor:
    def __init__(
        self,
        heartbeat: Heartbeat,
        spool: Spool | None,
        signals: ParentSignals,
        stall_timeout_s: float | None,
        say: Callable[[str], None],
        again: str,
    ) -> None:
        self._heartbeat = heartbeat
        self._spool = spool
        self._signals = signals
        self._stall_timeout_s = stall_timeout_s
        self._say = say
        self._again = again
        self._suspects = Suspects(again)
        self._pipe = os.pipe()
        """The worker reads, and learns so when we are gone."""
        self._failure: RunFailed | None = None
        self._poll_s = _POLL_S if stall_timeout_s is None else min(_POLL_S, stall_timeout_s / 4)

    def run(self) -> int | Link:
        """The exit code, or in a worker its link."""
        attempt = 0
        while True:
            link = self._fork(attempt)
            if isinstance(link, Link):
                return link
            status, stalled_s = self._watch(link)
            if self._failure is not None:
                raise self._failure
            code = os.waitstatus_to_exitcode(status)
            if code >= 0:
                return code
            death = Death.of(self._heartbeat, -code, stalled_s)
            _restore_terminal()
            if self._signals.stop_wanted:
                return self._stopped(death)
            self._mourn(death)
            attempt += 1

    def _fork(self, attempt: int) -> int | Link:
        """The worker's process id, or in the worker its link."""
        self._heartbeat.reset()
        for stream in (sys.stdout, sys.stderr):
            if stream is not None:
                with suppress(OSError):
                    stream.flush()  # else both processes would print what is in it
        pid = self._signals.fork()
        if pid > 0:
            return pid
        os.close(self._pipe[1])
        link = Link(
            self._heartbeat,
            attempt,
            self._suspects.groups,
            dict(self._suspects.condemned),
            None if self._spool is None else self._spool.reader(),
            None if self._spool is None else self._spool.head,
            INTERRUPT,
        )
        link.watch_parent(self._pipe[0])
        return link

    def _watch(self, pid: int) -> tuple[int, float | None]:
        """Wait for the worker's end: its wait status, and how long it had stalled where we killed it for that."""
        timer = StallTimer(self._heartbeat, self._poll_s + 0.5, time.monotonic())
        stalled_s, stopped = None, False
        while True:
            self._await_something(pid)
            self._signals.pass_on(pid)
            changed, status = os.waitpid(pid, os.WNOHANG | os.WUNTRACED | os.WCONTINUED)
            if changed and not (os.WIFSTOPPED(status) or os.WIFCONTINUED(status)):
                return status, stalled_s
            if changed:
                stopped = os.WIFSTOPPED(status)
            now_s = time.monotonic()
            if stopped:
                timer.restart(now_s)
            still_s = timer.still_s(now_s)
            if self._stall_timeout_s is not None and still_s >= self._stall_timeout_s and stalled_s is None:
                stalled_s = still_s
                os.kill(pid, signal.SIGKILL)

    def _await_something(self, pid: int) -> None:
        """A signal, something on standard input, or some time."""
        spool, sources, timeout_s = self._spool, [self._signals.descriptor], self._poll_s
        if spool is not None and not spool.ended and self._failure is None:
            if spool.full:
                timeout_s = min(timeout_s, _POLL_FULL_S)
            else:
                sources.append(spool.source)
        ready, _, _ = select.select(sources, (), (), timeout_s)
        if spool is not None and spool.source in ready:
            try:
                spool.copy()
            except RunFailed as error:
                self._failure = error
                os.kill(pid, signal.SIGTERM)

    def _stopped(self, death: Death) -> int:
        """The worker died after it had been told to stop."""
        why = "" if death.signal in _STOPS else f" (the worker died: {death.cause})"
        self._tell(f"stopped{why}; what was finished is kept, and {self._again} goes on from there")
        return EXIT_INTERRUPTED

    def _mourn(self, death: Death) -> None:
        """Tell of a death that another worker follows."""
        before = set(self._suspects.condemned)
        diagnosis = self._suspects.record(death)
        if diagnosis is not None:
            raise RunFailed(diagnosis)
        condemned = sorted(self._suspects.condemned.keys() - before)
        suspects = sum(map(len, self._suspects.groups))
        told = [f"the worker died ({death.cause})"]
        told += [f"row {row} is to blame and set aside as `crashed`" for row in condemned]
        if suspects:
            rows = "row" if suspects == 1 else f"{suspects} rows"
            told.append(f"the {rows} in flight then will run first, to find out who is to blame")
        self._tell("; ".join([*told, "starting it again"]))

    def _tell(self, message: str) -> None:
        """A reader that is gone, or a full disk, is no reason to leave rows unanswered."""
        with suppress(OSError):
            self._say(message)


def _restore_terminal() -> None:
    """Undo what a live display leaves."""
    if sys.stderr is not None and sys.stderr.isatty():
        with suppress(OSError):  # a terminal that was closed
            sys.stderr.write(_SHOW_CURSOR)
            sys.stderr.flush()
