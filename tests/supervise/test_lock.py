"""One process at a time, however the one before has ended."""

from __future__ import annotations

import os
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cbatch.errors import OutputError
from cbatch.supervise import DirectoryLock
from cbatch.supervise.lock import LOCK

HOLD = """
import sys, time
from pathlib import Path
from cbatch.supervise import DirectoryLock
with DirectoryLock(Path(sys.argv[1])):
    print("held", flush=True)
    time.sleep(float(sys.argv[2]))
"""


def hold(path: Path, seconds: float) -> subprocess.Popen[str]:
    """Another process that has the lock for so long."""
    process = subprocess.Popen([sys.executable, "-c", HOLD, str(path), str(seconds)], stdout=subprocess.PIPE, text=True)
    assert process.stdout is not None
    assert process.stdout.readline() == "held\n"
    return process


def test_it_leaves_nothing_behind(tmp_path: Path) -> None:
    for _ in range(2):
        with DirectoryLock(tmp_path):
            assert (tmp_path / LOCK).read_text() == str(os.getpid())
        assert not list(tmp_path.iterdir())


def test_a_second_process_is_refused_with_the_first_ones_number(tmp_path: Path) -> None:
    with hold(tmp_path, 60) as process:
        with (
            pytest.raises(OutputError, match=rf"another cbatch \(pid {process.pid}\).*wait.*-o"),
            DirectoryLock(tmp_path, patience_s=0.2),
        ):
            pass
        process.kill()


def test_a_lock_is_waited_for(tmp_path: Path) -> None:
    with hold(tmp_path, 0.3), DirectoryLock(tmp_path, patience_s=5):
        assert (tmp_path / LOCK).read_text() == str(os.getpid())


def test_a_killed_process_has_no_lock(tmp_path: Path) -> None:
    with hold(tmp_path, 60) as process:
        process.kill()
    assert (tmp_path / LOCK).exists()
    began = time.monotonic()
    with DirectoryLock(tmp_path):
        assert time.monotonic() - began < 1


def test_a_directory_may_be_renamed_meanwhile(tmp_path: Path) -> None:
    path = tmp_path / "out"
    path.mkdir()
    with DirectoryLock(path):
        path.rename(tmp_path / "old")
        path.mkdir()
        with DirectoryLock(path, patience_s=0):
            pass
    assert not list((tmp_path / "old").iterdir())


def test_a_child_that_leaves_it_leaves_it_to_its_parent(tmp_path: Path) -> None:
    code = """
import os, sys
from pathlib import Path
from cbatch.supervise import DirectoryLock
path = Path(sys.argv[1])
with DirectoryLock(path):
    pid = os.fork()
    if pid:
        os.waitpid(pid, 0)
        print(os.path.exists(path / ".lock"), flush=True)
        sys.stdin.read()
"""
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdout is not None
    assert process.stdout.readline() == "True\n"
    with pytest.raises(OutputError), DirectoryLock(tmp_path, patience_s=0.1):
        pass
    process.communicate()
    with DirectoryLock(tmp_path, patience_s=0):
        pass


def test_a_directory_that_cant_be_locked(tmp_path: Path) -> None:
    (tmp_path / LOCK).mkdir()
    with pytest.raises(OutputError, match=r"can't be locked.*Is a directory.*-o"), DirectoryLock(tmp_path):
        pass


def test_a_directory_that_isnt_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match="can't be locked"), DirectoryLock(tmp_path / "none"):
        pass


RACE = """
import sys, time
from pathlib import Path
from cbatch.supervise import DirectoryLock
path = Path(sys.argv[1])
for _ in range(10):
    with DirectoryLock(path, patience_s=60):
        number = int((path / "count").read_text())
        time.sleep(0.001)
        (path / "count").write_text(str(number + 1))
"""


def test_processes_that_race_for_it_have_it_one_at_a_time(tmp_path: Path) -> None:
    (tmp_path / "count").write_text("0")
    racers = [subprocess.Popen([sys.executable, "-c", RACE, str(tmp_path)]) for _ in range(3)]
    assert [racer.wait(60) for racer in racers] == [0, 0, 0]
    assert (tmp_path / "count").read_text() == "30"
