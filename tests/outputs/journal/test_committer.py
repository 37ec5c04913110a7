from __future__ import annotations

import threading
import time
from typing import Any

import pytest

from cbatch.outputs.journal import committer as module
from cbatch.outputs.journal.committer import Committer


class Commits:
    """What was committed, and a gate that holds commits up."""

    def __init__(self) -> None:
        self.made: list[tuple[list[Any], list[Any]]] = []
        self.gate = threading.Event()
        self.gate.set()
        self.error: BaseException | None = None

    def __call__(self, rows: list[Any], steps: list[Any]) -> None:
        self.gate.wait(10)
        if self.error is not None:
            raise self.error
        self.made.append((rows, steps))

    @property
    def rows(self) -> list[Any]:
        return [row for rows, _ in self.made for row in rows]

    def wait_for(self, count: int) -> None:
        until = time.monotonic() + 5
        while len(self.rows) < count:
            assert time.monotonic() < until, f"{len(self.rows)} of {count} rows were committed"
            time.sleep(0.001)


def test_what_is_added_is_committed_without_another_call(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_S", 0.02)
    commits = Commits()
    committer = Committer(commits)
    committer.add_row("a")
    committer.add_step("s")
    commits.wait_for(1)
    committer.add_row("b")
    commits.wait_for(2)
    committer.close()
    assert commits.rows == ["a", "b"]
    assert [step for _, steps in commits.made for step in steps] == ["s"]


def test_many_rows_do_not_wait_for_the_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_S", 3_600.0)
    monkeypatch.setattr(module, "COMMIT_ROWS", 3)
    commits = Commits()
    committer = Committer(commits)
    for row in range(3):
        committer.add_row(row)
    commits.wait_for(3)
    committer.close()
    assert commits.rows == [0, 1, 2]


def test_closing_commits_the_rest(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_S", 3_600.0)
    commits = Commits()
    committer = Committer(commits)
    committer.add_row(1)
    committer.close()
    committer.close()
    assert commits.rows == [1]


def test_an_error_is_raised_where_the_next_thing_is_added(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_S", 0.01)
    commits = Commits()
    commits.error = OSError("disk")
    committer = Committer(commits)
    committer.add_row(1)
    committer._thread.join(5)
    with pytest.raises(OSError, match="disk"):
        committer.add_row(2)
    with pytest.raises(OSError, match="disk"):
        committer.add_step(2)
    committer.close()
    assert committer.error is commits.error


def test_an_error_that_nobody_heard_of_is_raised_by_close() -> None:
    commits = Commits()
    commits.error = OSError("disk")
    committer = Committer(commits)
    committer.add_row(1)
    with pytest.raises(OSError, match="disk"):
        committer.close()
    committer.close()


def test_whoever_adds_waits_for_a_thread_that_is_far_behind(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_S", 0.01)
    monkeypatch.setattr(module, "COMMIT_ROWS", 2)
    monkeypatch.setattr(module, "MOST_WAITING", 4)
    commits = Commits()
    commits.gate.clear()
    committer = Committer(commits)
    added: list[int] = []

    def add() -> None:
        for row in range(50):
            committer.add_row(row)
            added.append(row)

    thread = threading.Thread(target=add)
    thread.start()
    time.sleep(0.05)
    assert len(added) < 10
    commits.gate.set()
    thread.join(5)
    committer.close()
    assert commits.rows == list(range(50))


def test_whoever_waits_hears_of_the_error(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "COMMIT_ROWS", 1)
    monkeypatch.setattr(module, "MOST_WAITING", 2)
    commits = Commits()
    commits.gate.clear()
    commits.error = OSError("disk")
    committer = Committer(commits)
    threading.Timer(0.05, commits.gate.set).start()

    def add() -> None:
        for row in range(10):
            committer.add_row(row)

    with pytest.raises(OSError, match="disk"):
        add()
    committer.close()
