"""What every way of showing a running job can do, and which one to show. Knows no figures."""

from __future__ import annotations

import sys
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console

from cbatch.report.dashboard import Dashboard
from cbatch.report.plain import PlainLines, Quiet
from cbatch.report.progress import Progress


class View(AbstractContextManager["View"], Protocol):
    """Shows a job on stderr from enter to exit."""

    def message(self, text: str) -> None:
        """Show a warning or notice without breaking the picture; from any thread."""
        ...


def choose_view(progress: Progress, *, quiet: bool, is_terminal: bool, title: str = "cbatch run") -> View:
    """A dashboard on a terminal that can draw one, else plain lines; with `quiet`, messages only."""
    if quiet:
        return Quiet()
    if not is_terminal:  # and there may be no stderr at all
        return PlainLines(progress)
    console = Console(file=sys.stderr, force_terminal=True)
    if console.is_dumb_terminal or not console.encoding.startswith("utf"):
        return PlainLines(progress)
    return Dashboard(progress, console, title=title)
