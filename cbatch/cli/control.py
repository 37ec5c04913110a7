"""The user's wish to stop, on its way to whatever runs just now. Knows nothing of what that is."""

from __future__ import annotations

from collections.abc import Callable


def _nothing() -> None:
    """While nothing runs that could be stopped."""


class Control:
    """Takes `stop` and `abort` from any thread; a wish is kept for what comes later."""

    def __init__(self, announce: Callable[[], None] = _nothing) -> None:
        """`announce` is called once, at the first wish to stop."""
        self._announce = announce
        self._stop = self._abort = _nothing
        self.stop_wanted = False
        self.abort_wanted = False

    def steer(self, stop: Callable[[], None], abort: Callable[[], None]) -> None:
        """From now on this is what runs: how to let it finish, and how to end it at once."""
        self._stop, self._abort = stop, abort
        if self.stop_wanted:
            stop()
        if self.abort_wanted:
            abort()

    def stop(self) -> None:
        """Finish what runs and begin nothing more."""
        first, self.stop_wanted = not self.stop_wanted, True
        self._stop()
        if first:
            self._announce()

    def abort(self) -> None:
        """Stop as soon as possible."""
        first, self.stop_wanted, self.abort_wanted = not self.stop_wanted, True, True
        self._abort()
        if first:
            self._announce()
