"""What every way of showing a running job can do, and which one to show. Knows no figures."""

from __future__ import annotations

import sys
from collections.abc import Callable
from contextlib import AbstractContextManager
from typing import Protocol

from rich.console import Console
from rich.text import Text

from cbatch.report.dashboard import Dashboard
from cbatch.report.panels import frame
from cbatch.report.plain import PlainLines, Quiet, plain_line, replay_line
from cbatch.report.progress import Progress
from cbatch.report.replay_panels import replay_frame
from cbatch.report.replay_progress import ReplayProgress


class View(AbstractContextManager["View"], Protocol):
    """Shows a job on stderr from enter to exit."""

    def message(self, text: str) -> None:
        """Show a warning or notice without breaking the picture; from any thread."""
        ...


def run_view(progress: Progress, title: str, *, quiet: bool, is_terminal: bool) -> View:
    """Of `cbatch run`."""
    return choose_view(
        lambda width, height: frame(progress.figures(), title, width, height),
        lambda: plain_line(progress.figures()),
        quiet=quiet,
        is_terminal=is_terminal,
    )


def replay_view(progress: ReplayProgress, title: str, *, quiet: bool, is_terminal: bool) -> View:
    """Of `cbatch replay`."""
    return choose_view(
        lambda width, height: replay_frame(progress.figures(), title, width, height),
        lambda: replay_line(progress.figures()),
        quiet=quiet,
        is_terminal=is_terminal,
    )


def choose_view(
    draw: Callable[[int, int], list[Text]], line: Callable[[], str], *, quiet: bool, is_terminal: bool
) -> View:
    """A dashboard on a terminal that can draw one, else plain lines; with `quiet`, messages only."""
    if quiet:
        return Quiet()
    if not is_terminal:  # and there may be no stderr at all
        return PlainLines(line)
    console = Console(file=sys.stderr, force_terminal=True)
    if console.is_dumb_terminal or not console.encoding.startswith("utf"):
        return PlainLines(line)
    return Dashboard(draw, console)
