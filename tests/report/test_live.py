from __future__ import annotations

import io
import sys

import pytest
from rich.console import Console
from rich.text import Text

from cbatch.report.live import LiveArea
from tests.report.screen import Screen


class Terminal:
    """A console and what it shows."""

    def __init__(self, width: int = 40, height: int = 12) -> None:
        self.file = io.StringIO()
        self.console = Console(file=self.file, force_terminal=True, width=width, height=height, color_system="standard")
        self.screen = Screen(width, height)

    def show(self) -> list[str]:
        """Lines on the screen after what was printed since the last call."""
        self.screen.feed(self.take())
        return self.screen.lines

    def take(self) -> str:
        data = self.file.getvalue()
        self.file.seek(0)
        self.file.truncate()
        return data


def test_it_is_redrawn_in_place_and_goes_without_a_trace() -> None:
    terminal, lines = Terminal(), ["one 日本", "two"]
    area = LiveArea(terminal.console, lambda: [Text(line, style="green") for line in lines])
    terminal.console.print("before")
    area.start()
    assert terminal.show() == ["before", "one 日本", "two"]
    assert not terminal.screen.cursor_shown
    lines[:] = ["1", "second"]
    area.refresh()
    assert terminal.show() == ["before", "1", "second"]
    area.stop()
    assert terminal.show() == ["before", "", ""]
    assert terminal.screen.cursor_shown
    terminal.console.print("after")
    assert terminal.show() == ["before", "after", ""]


def test_a_redraw_never_blanks_a_line() -> None:
    terminal = Terminal()
    area = LiveArea(terminal.console, lambda: [Text("one"), Text("two")])
    area.start()
    terminal.take()
    area.refresh()
    assert terminal.take() == "\r\x1b[1Aone\x1b[0K\ntwo\x1b[0K"
    area.stop()


def test_it_may_grow_and_shrink() -> None:
    terminal, lines = Terminal(), ["a"]
    area = LiveArea(terminal.console, lambda: list(map(Text, lines)))
    area.start()
    for shown in (["a", "b", "c"], ["x"], ["y", "z"]):
        lines[:] = shown
        area.refresh()
        assert [line for line in terminal.show() if line] == shown
    area.stop()
    assert not any(terminal.show())


def test_what_is_printed_meanwhile_comes_above() -> None:
    terminal = Terminal()
    area = LiveArea(terminal.console, lambda: [Text("picture"), Text("below")])
    area.start()
    area.print(Text("a [bold]warning[/] that is too long for one line of this"))
    print("from a library", file=sys.stderr)
    area.refresh()
    assert terminal.show() == [
        "a [bold]warning[/] that is too long for",
        "one line of this",
        "from a library",
        "picture",
        "below",
    ]
    area.stop()
    assert [line for line in terminal.show() if line][-1] == "from a library"


def test_stderr_is_given_back() -> None:
    before, terminal = sys.stderr, Terminal()
    area = LiveArea(terminal.console, lambda: [Text("picture")])
    area.start()
    assert sys.stderr is not before
    sys.stderr.write("no newline yet")
    area.stop()
    assert sys.stderr is before
    assert terminal.show()[0] == "no newline yet"


def test_stdout_is_left_alone(capsys: pytest.CaptureFixture[str]) -> None:
    terminal = Terminal()
    area = LiveArea(terminal.console, lambda: [Text("picture")])
    area.start()
    print("results go here")
    area.stop()
    assert capsys.readouterr().out == "results go here\n"
