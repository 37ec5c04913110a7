from __future__ import annotations

import io
import sys

import pytest
from rich.text import Text

from cbatch.clock import VirtualClock
from cbatch.metrics.objectives import Objectives
from cbatch.report.dashboard import Dashboard
from cbatch.report.plain import PlainLines, Quiet
from cbatch.report.progress import Progress
from cbatch.report.replay_progress import ReplayProgress
from cbatch.report.view import View, choose_view, replay_view, run_view


def choose(*, quiet: bool, is_terminal: bool) -> View:
    return choose_view(lambda width, height: [Text("picture")], lambda: "line", quiet=quiet, is_terminal=is_terminal)


@pytest.mark.parametrize(
    ("quiet", "is_terminal", "term", "encoding", "expected"),
    [
        (False, True, "xterm-256color", "utf-8", Dashboard),
        (False, True, "dumb", "utf-8", PlainLines),
        (False, True, "xterm-256color", "latin-1", PlainLines),
        (False, False, "xterm-256color", "utf-8", PlainLines),
        (True, True, "xterm-256color", "utf-8", Quiet),
    ],
)
def test_choose_view(
    quiet: bool, is_terminal: bool, term: str, encoding: str, expected: type, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TERM", term)
    monkeypatch.setattr(sys, "stderr", io.TextIOWrapper(io.BytesIO(), encoding))
    view = choose(quiet=quiet, is_terminal=is_terminal)
    assert isinstance(view, expected)


@pytest.mark.parametrize("quiet", [True, False])
def test_without_stderr_nothing_is_shown(quiet: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        with choose(quiet=quiet, is_terminal=False) as view:
            view.message("nobody reads this")
    assert capfd.readouterr() == ("", "")


def test_the_views_of_commands(capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> None:
    clock = VirtualClock()
    progress = ReplayProgress(clock, objectives=Objectives(), arrived=lambda: 3, total=5, span_s=None)
    with run_view(Progress(clock), "a run", quiet=False, is_terminal=False):
        pass
    with replay_view(progress, "a replay", quiet=False, is_terminal=False):
        pass
    run, replay = capsys.readouterr().err.splitlines()
    assert "rows 0/?" in run
    assert "arrived 3/5" in replay
    screen = io.TextIOWrapper(io.BytesIO(), "utf-8", write_through=True)
    monkeypatch.setattr(sys, "stderr", screen)
    monkeypatch.setenv("TERM", "xterm-256color")
    with run_view(Progress(clock), "a run", quiet=False, is_terminal=True):
        pass
    with replay_view(progress, "a replay", quiet=False, is_terminal=True):
        pass
    drawn = screen.buffer.getvalue().decode()
    assert drawn.index("a run") < drawn.index("0 rows") < drawn.index("a replay") < drawn.index("arrived 3/5")
