"""The live picture on a terminal: when to draw it. Knows no figures; `panels` and `replay_panels` draw them."""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from types import TracebackType

from rich.console import Console
from rich.text import Text

from cbatch.report.live import LiveArea
from cbatch.report.text import lines
from cbatch.report.ticker import Ticker

REFRESH_S = 0.25


class Dashboard:
    """Draws below what is on the screen already, and takes itself away at the end: a summary comes in its place.

    `draw` makes the lines for a terminal of so many columns and rows; none may reach the last column. A terminal that
    has gone away doesn't end the job, whose results go to disk.
    """

    def __init__(
        self, draw: Callable[[int, int], list[Text]], console: Console, *, refresh_s: float = REFRESH_S
    ) -> None:
        self._console = console
        self._area = LiveArea(console, lambda: draw(*console.size))
        self._ticker = Ticker("dashboard", refresh_s, self._area.refresh)

    def __enter__(self) -> Dashboard:
        with suppress(OSError):
            self._area.start()
        self._ticker.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ticker.stop()
        with suppress(OSError):
            self._area.stop()

    def message(self, text: str) -> None:
        """Print above the picture; from any thread."""
        with suppress(OSError):
            self._area.print(Text(lines(text)))
