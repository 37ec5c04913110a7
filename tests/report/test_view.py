from __future__ import annotations

import io
import sys

import pytest

from cbatch.clock import VirtualClock
from cbatch.report.dashboard import Dashboard
from cbatch.report.plain import PlainLines, Quiet
from cbatch.report.progress import Progress
from cbatch.report.view import choose_view


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
    view = choose_view(Progress(VirtualClock()), quiet=quiet, is_terminal=is_terminal)
    assert isinstance(view, expected)


@pytest.mark.parametrize("quiet", [True, False])
def test_without_stderr_nothing_is_shown(quiet: bool, capfd: pytest.CaptureFixture[str]) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(sys, "stderr", None)
        with choose_view(Progress(VirtualClock()), quiet=quiet, is_terminal=False) as view:
            view.message("nobody reads this")
    assert capfd.readouterr() == ("", "")
