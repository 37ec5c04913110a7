"""A terminal that nobody looks at, to draw a dashboard on. Unix."""

from __future__ import annotations

import fcntl
import os
import pty
import struct
import termios
import threading
from collections.abc import Iterator
from contextlib import contextmanager

_ROWS, _COLUMNS = 40, 120


@contextmanager
def terminal() -> Iterator[int]:
    """Its file descriptor. What a program in it needs to draw is `TERM=xterm-256color` and `PYTHONUTF8=1`."""
    ours, theirs = pty.openpty()
    fcntl.ioctl(theirs, termios.TIOCSWINSZ, struct.pack("HHHH", _ROWS, _COLUMNS, 0, 0))
    reader = threading.Thread(target=_drain, args=(ours,), daemon=True)
    reader.start()
    try:
        yield theirs
    finally:
        os.close(theirs)
        reader.join(5)
        os.close(ours)


def _drain(descriptor: int) -> None:
    """Read until the other end is closed, which Linux tells as an error."""
    try:
        while os.read(descriptor, 65_536):
            pass
    except OSError:
        return
