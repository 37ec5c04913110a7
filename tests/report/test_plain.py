from __future__ import annotations

import sys
import time

import pytest

from cbatch.clock import VirtualClock
from cbatch.report.plain import PlainLines, Quiet, plain_line, replay_line
from cbatch.report.progress import Progress
from tests.report.factories import (
    SECOND,
    make_fault,
    make_figures,
    make_job,
    make_replay_figures,
    make_step,
    make_view,
)
from tests.report.test_dashboard import GoneAway


def test_a_line() -> None:
    clock = VirtualClock()
    progress = Progress(clock)
    list(progress.reading([make_job(1, prompt=60, max_tokens=10), make_fault(2)]))
    progress.fault(make_fault(2))
    record = make_step(0, 2 * SECOND, prefill=60, output=5, prefill_ns=1, decode_ns=1)
    progress.step(record, lambda: make_view(32, busy=1, waiting=0))
    clock.advance(2 * SECOND)
    assert plain_line(progress.figures()) == (
        "2.0 s  rows 1/2 (1 failed)  out 2.5 tok/s  prefill 30 tok/s  running 1  waiting 0  eta 1 s"
    )


def test_what_isnt_known_yet() -> None:
    assert plain_line(Progress(VirtualClock()).figures()) == (
        "0.0 s  rows 0/?  out 0.0 tok/s  prefill 0.0 tok/s  running 0  waiting 0  eta -"
    )
    assert plain_line(make_figures(stopping=True)).endswith("waiting 47  stopping")


def test_a_line_of_a_replay() -> None:
    assert replay_line(make_replay_figures(errors=(("row-1", "too long"),))) == (
        "4000.0 s  arrived 124538/200000  completed 123456  failed 1  running 32  waiting 1079  "
        "ttft p50 20.0 s p99 39.6 s  slo 91 %  out 4,123 tok/s"
    )
    without = replay_line(make_replay_figures(total=None, objectives=0))
    assert "arrived 124538/?" in without
    assert "slo" not in without


def test_lines_and_messages_go_to_stderr(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines(lambda: "rows 0/?", every_s=0.01) as view:
        view.message("warning: \x1b[2J")
        time.sleep(0.1)
    out, err = capsys.readouterr()
    assert out == ""
    assert err.startswith("warning: �[2J\n")
    assert err.count("rows 0/?") >= 3


def test_a_short_run_gets_its_line_too(capsys: pytest.CaptureFixture[str]) -> None:
    with PlainLines(lambda: "rows 0/?"):
        pass
    assert capsys.readouterr().err.count("\n") == 1


def test_quiet_shows_messages_only(capsys: pytest.CaptureFixture[str]) -> None:
    with Quiet() as view:
        view.message("3 rows left")
    assert capsys.readouterr() == ("", "3 rows left\n")


def test_a_reader_that_has_gone_away_doesnt_end_the_job(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stderr", GoneAway())
    with PlainLines(lambda: "rows 0/?", every_s=0.001) as view:
        view.message("nobody reads this")
        time.sleep(0.01)


def test_without_stderr_nothing_is_written(monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> None:
    monkeypatch.setattr(sys, "stderr", None)
    with PlainLines(lambda: "rows 0/?", every_s=0.001) as view:
        view.message("nobody reads this")
        time.sleep(0.01)
    with Quiet() as quiet:
        quiet.message("nor this")
    monkeypatch.undo()
    assert capsys.readouterr() == ("", "")
