"""Lines that stay below everything else printed. Knows no figures.

Unlike `rich.live`, a redraw overwrites the old lines and never blanks them first, so that a terminal that shows half
of an update shows some lines old and some new, but none empty: nothing flickers.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Callable
from contextlib import ExitStack, redirect_stderr

from rich.console import Console, ConsoleOptions, ConsoleRenderable, RenderHook, RenderResult
from rich.control import Control
from rich.file_proxy import FileProxy
from rich.segment import ControlType, Segment
from rich.text import Text


class LiveArea(RenderHook):
    """Keeps what `draw` returns on the screen from `start` to `stop`, when it goes without a trace.

    What is printed on the console or to `sys.stderr` meanwhile appears above. Lines must be narrower than the console.
    """

    def __init__(self, console: Console, draw: Callable[[], list[Text]]) -> None:
        self._console = console
        self._draw = draw
        self._lock = threading.RLock()
        self._height = 0
        self._undo = ExitStack()

    def start(self) -> None:
        proxy = FileProxy(self._console, sys.stderr)
        self._console.show_cursor(False)
        self._undo.callback(self._console.show_cursor, True)
        self._console.push_render_hook(self)
        self._undo.callback(self._erase)
        self._undo.callback(self._console.pop_render_hook)
        self._undo.callback(proxy.flush)
        self._undo.enter_context(redirect_stderr(proxy))
        self.refresh()

    def stop(self) -> None:
        self._undo.close()

    def refresh(self) -> None:
        with self._lock:
            self._console.print(Control())

    def print(self, text: Text) -> None:
        """Above the area; from any thread."""
        with self._lock:
            self._console.print(text)

    def process_renderables(self, renderables: list[ConsoleRenderable]) -> list[ConsoleRenderable]:
        """Of rich's render hook: put what is printed in place of the area, and the area below it."""
        with self._lock:
            lines = self._draw()
            prints = any(not isinstance(renderable, Control) for renderable in renderables)
            start = _erase(self._height) if prints or len(lines) < self._height else _home(self._height)
            self._height = len(lines)
            return [start, *renderables, _Lines(lines)]

    def _erase(self) -> None:
        self._console.control(_erase(self._height))


class _Lines:
    """Lines that each overwrite what is on the screen; the cursor stays on the last one."""

    def __init__(self, lines: list[Text]) -> None:
        self._lines = lines

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        for index, line in enumerate(self._lines):
            if index > 0:
                yield Segment.line()
            yield from line.render(console)
            yield Control((ControlType.ERASE_IN_LINE, 0)).segment


def _home(height: int) -> Control:
    """From the last of `height` lines to the start of the first."""
    up = [(ControlType.CURSOR_UP, height - 1)] if height > 1 else []
    return Control(ControlType.CARRIAGE_RETURN, *up)


def _erase(height: int) -> Control:
    """As `_home`, leaving the lines empty."""
    up = [(ControlType.CURSOR_UP, 1), (ControlType.ERASE_IN_LINE, 2)]
    return Control(ControlType.CARRIAGE_RETURN, (ControlType.ERASE_IN_LINE, 2), *(up * max(0, height - 1)))
