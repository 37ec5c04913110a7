from __future__ import annotations

import io
import time

import pytest
from rich.console import Console
from rich.text import Text

from cbatch.clock import WallClock
from cbatch.report.dashboard import Dashboard
from cbatch.report.panels import frame
from cbatch.report.progress import Progress
from tests.report.factories import make_job, make_output, make_ref, make_request, make_step, make_view
from tests.report.screen import Screen


def make_progress() -> Progress:
    progress = Progress(WallClock())
    list(progress.reading([make_job(1), make_job(2)]))
    return progress


def run_some(progress: Progress) -> None:
    progress.step(make_step(0, 10**9, prefill=20, output=5, prefill_ns=1, decode_ns=1), make_view)
    progress.finished(make_ref(1), make_output(make_request(1), text="Paris\x1b[2J"))


def two_lines(width: int, height: int) -> list[Text]:
    return [Text("one"), Text("two")]


@pytest.mark.parametrize("size", [(60, 15), (80, 24), (200, 50)])
def test_a_run_on_a_terminal(size: tuple[int, int]) -> None:
    width, height = size
    file, screen, progress = io.StringIO(), Screen(width, height), make_progress()
    console = Console(file=file, force_terminal=True, width=width, height=height)
    draw = lambda width, height: frame(progress.figures(), "the model", width, height)  # noqa: E731
    with Dashboard(draw, console, refresh_s=0.005) as dashboard:
        run_some(progress)
        dashboard.message("a warning\nof two lines")
        time.sleep(0.05)
    data = file.getvalue()
    screen.feed(data)
    assert [line for line in screen.lines if line] == ["a warning", "of two lines"]
    assert screen.cursor_shown
    assert "the model" in data
    assert "Paris�[2J" in data


def test_an_exception_leaves_a_sane_terminal() -> None:
    file, screen = io.StringIO(), Screen(80, 24)
    console = Console(file=file, force_terminal=True, width=80, height=24)
    with pytest.raises(KeyboardInterrupt), Dashboard(two_lines, console):
        raise KeyboardInterrupt
    screen.feed(file.getvalue())
    assert not any(screen.lines)
    assert screen.cursor_shown


class GoneAway(io.StringIO):
    """A terminal that was closed."""

    def write(self, text: str) -> int:
        raise OSError(5, "Input/output error")


def test_a_terminal_that_has_gone_away_doesnt_end_the_job() -> None:
    console = Console(file=GoneAway(), force_terminal=True, width=80, height=24)
    with Dashboard(two_lines, console, refresh_s=0.001) as dashboard:
        dashboard.message("nobody reads this")
        time.sleep(0.01)
