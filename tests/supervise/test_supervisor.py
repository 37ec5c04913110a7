"""Real workers that die, stall and are told to stop; each job in a process of its own, from `tests.supervise.jobs`."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest

from tests.supervise.jobs import lines, run, start, start_at, wait_until

ALL = set(range(1, 201))


def answered(folder: Path) -> list[int]:
    """Rows, in order of completion."""
    return [int(line) for line in lines(folder, "answers")]


def crashed(folder: Path) -> set[int]:
    """Rows that were set aside."""
    faults = [line.split(maxsplit=2) for line in lines(folder, "faults")]
    assert all(code == "crashed" for _, code, _ in faults)
    return {int(number) for number, _, _ in faults}


def assert_exactly(folder: Path, killers: set[int], rows: set[int] = ALL) -> None:
    """Every row has one result, and the killers are the ones that crashed."""
    assert sorted(answered(folder)) == sorted(rows - killers)
    assert crashed(folder) == killers
    assert len(lines(folder, "faults")) == len(killers)


def restarts(folder: Path) -> int:
    return len(lines(folder, "workers")) - 1


def test_nothing_happens(tmp_path: Path) -> None:
    assert run(tmp_path).returncode == 0
    assert_exactly(tmp_path, set())
    assert restarts(tmp_path) == 0
    assert not lines(tmp_path, "said")


@pytest.mark.parametrize(("row", "how"), [(1, "SIGSEGV"), (17, "SIGABRT"), (117, "SIGBUS"), (200, "SIGSEGV")])
def test_one_row_that_kills_is_found_within_three_restarts(tmp_path: Path, row: int, how: str) -> None:
    process = run(tmp_path, kills={str(row): how})
    assert process.returncode == 0, process.stderr
    assert_exactly(tmp_path, {row})
    assert 2 <= restarts(tmp_path) <= 3
    said = lines(tmp_path, "said")
    assert len(said) == restarts(tmp_path)
    assert all(how in line for line in said)
    assert f"row {row} is to blame" in said[-1]
    assert how in lines(tmp_path, "faults")[0]


@pytest.mark.parametrize("slots", [1, 2, 100])
def test_any_number_of_slots(tmp_path: Path, slots: int) -> None:
    assert run(tmp_path, kills={"17": "SIGABRT"}, slots=slots).returncode == 0
    assert_exactly(tmp_path, {17})
    assert restarts(tmp_path) == 2 if slots < 3 else restarts(tmp_path) <= 3


def test_several_rows_that_kill(tmp_path: Path) -> None:
    killers = {3, 4, 40, 111, 200}
    assert run(tmp_path, kills={str(row): "SIGABRT" for row in killers}).returncode == 0
    assert_exactly(tmp_path, killers)


def test_a_job_of_nothing_but_one_row_that_kills(tmp_path: Path) -> None:
    assert run(tmp_path, rows=1, kills={"1": "SIGABRT"}).returncode == 0
    assert_exactly(tmp_path, {1}, {1})


@pytest.mark.parametrize("row", [1, 170])
def test_a_row_that_kills_while_it_is_tokenised(tmp_path: Path, row: int) -> None:
    process = run(tmp_path, token_kills={str(row): "SIGABRT"})
    assert process.returncode == 0, process.stderr
    assert_exactly(tmp_path, {row})
    assert restarts(tmp_path) == 2


def test_rows_of_both_kinds_together(tmp_path: Path) -> None:
    process = run(tmp_path, kills={"12": "SIGILL", "150": "SIGSEGV"}, token_kills={"71": "SIGABRT"})
    assert process.returncode == 0, process.stderr
    assert_exactly(tmp_path, {12, 71, 150})


def test_a_row_that_stalls(tmp_path: Path) -> None:
    process = run(tmp_path, rows=40, slots=3, kills={"17": "stall"}, stall_timeout_s=0.5)
    assert process.returncode == 0, process.stderr
    assert_exactly(tmp_path, {17}, set(range(1, 41)))
    assert "no sign of life" in lines(tmp_path, "said")[0]
    assert "--stall-timeout" in lines(tmp_path, "faults")[0]


def test_a_row_whose_tokenising_stalls(tmp_path: Path) -> None:
    assert run(tmp_path, rows=40, token_kills={"5": "stall"}, stall_timeout_s=0.5).returncode == 0
    assert_exactly(tmp_path, {5}, set(range(1, 41)))


def test_deaths_by_chance_condemn_nobody(tmp_path: Path) -> None:
    process = start(tmp_path, step_s=0.02)
    for count in (20, 60, 100):
        while len(answered(tmp_path)) <= count:
            time.sleep(0.01)
        os.kill(int(lines(tmp_path, "workers")[-1]), signal.SIGKILL)
    assert process.wait(30) == 0
    assert set(answered(tmp_path)) == ALL
    assert not crashed(tmp_path)
    assert restarts(tmp_path) == 3


def test_a_crash_in_every_batch_ends_with_a_diagnosis(tmp_path: Path) -> None:
    process = run(tmp_path, kills={str(row): "SIGKILL" for row in ALL})
    assert process.returncode == 1
    assert "died 5 times in a row without a row answered" in process.stderr
    assert "SIGKILL 5 times" in process.stderr
    assert "--kv-type" in process.stderr
    assert restarts(tmp_path) == 4
    assert not lines(tmp_path, "faults"), "rows that aren't to blame are to run again next time"


def test_a_crash_whenever_many_rows_run(tmp_path: Path) -> None:
    process = run(tmp_path, rows=600, crowd_kills=20)
    assert process.returncode == 1
    assert "whenever many rows ran at once" in process.stderr
    assert "--max-num-seqs" in process.stderr
    assert not lines(tmp_path, "faults")


def test_a_model_that_kills_while_it_is_loaded(tmp_path: Path) -> None:
    process = run(tmp_path, start_kills="SIGILL")
    assert process.returncode == 1
    assert "died 3 times in a row before the first step" in process.stderr
    assert "doctor" in process.stderr


def test_slow_steps_are_no_stall(tmp_path: Path) -> None:
    assert run(tmp_path, rows=3, slots=3, step_s=0.3, stall_timeout_s=1).returncode == 0
    assert restarts(tmp_path) == 0


def test_a_suspended_worker_is_no_stall(tmp_path: Path) -> None:
    process = start(tmp_path, rows=15, slots=3, step_s=0.05, stall_timeout_s=0.6)
    wait_until(lambda: answered(tmp_path))
    worker = int(lines(tmp_path, "workers")[0])
    os.kill(worker, signal.SIGSTOP)
    time.sleep(1.2)
    os.kill(worker, signal.SIGCONT)
    assert process.wait(30) == 0
    assert restarts(tmp_path) == 0


def test_suspending_both_is_no_stall(tmp_path: Path) -> None:
    process = start(tmp_path, rows=15, slots=3, step_s=0.05, stall_timeout_s=1)
    wait_until(lambda: answered(tmp_path))
    worker = int(lines(tmp_path, "workers")[0])
    for pid in (process.pid, worker):
        os.kill(pid, signal.SIGSTOP)
    time.sleep(2.5)
    for pid in (process.pid, worker):
        os.kill(pid, signal.SIGCONT)
    assert process.wait(30) == 0
    assert restarts(tmp_path) == 0


def alive(pid: int) -> bool:
    """Whether a process runs. One that has ended, and that nobody has asked after yet, doesn't."""
    state = subprocess.run(["ps", "-o", "stat=", "-p", str(pid)], capture_output=True, text=True, check=False).stdout
    return state.strip() not in ("", "Z")


def test_a_worker_ends_soon_after_its_parent(tmp_path: Path) -> None:
    process = start(tmp_path, step_s=0.05)
    wait_until(lambda: answered(tmp_path))
    worker = int(lines(tmp_path, "workers")[0])
    process.kill()
    process.wait()
    wait_until(lambda: not alive(worker), timeout_s=4)
    assert lines(tmp_path, "endings") == ["aborted"]


def test_a_worker_that_hangs_ends_too(tmp_path: Path) -> None:
    process = start(tmp_path, rows=9, kills={"5": "stall"})
    wait_until(lambda: lines(tmp_path, "ready"))
    worker = int(lines(tmp_path, "workers")[0])
    process.kill()
    process.wait()
    wait_until(lambda: not alive(worker), timeout_s=8)


def running(tmp_path: Path, **job: Any) -> tuple[subprocess.Popen[bytes], int]:
    """A job in the middle of its rows, and its worker."""
    process = start(tmp_path, **{"step_s": 0.05, "slots": 4, **job})
    wait_until(lambda: answered(tmp_path))
    return process, int(lines(tmp_path, "workers")[-1])


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_a_wish_to_stop_now_is_passed_on(tmp_path: Path, number: signal.Signals) -> None:
    if signal.getsignal(number) is signal.SIG_IGN:
        pytest.skip("it is ignored here, as under nohup, and stays so")
    process, _ = running(tmp_path)
    process.send_signal(number)
    assert process.wait(5) == 130
    assert lines(tmp_path, "endings") == ["aborted"]


def test_an_interrupt_of_the_parent_alone_reaches_the_worker(tmp_path: Path) -> None:
    process, _ = running(tmp_path)
    process.send_signal(signal.SIGINT)
    assert process.wait(5) == 130
    assert lines(tmp_path, "endings") == ["stopped"]
    assert len(answered(tmp_path)) % 4 == 0, "what ran was finished"


def test_an_interrupt_of_both_counts_once(tmp_path: Path) -> None:
    """As Ctrl-C at a terminal."""
    process, worker = running(tmp_path, step_s=0.2)
    for pid in (process.pid, worker):
        os.kill(pid, signal.SIGINT)
    assert process.wait(5) == 130
    assert lines(tmp_path, "endings") == ["stopped"]


def test_a_second_interrupt_stops_now(tmp_path: Path) -> None:
    process, worker = running(tmp_path, step_s=0.2)
    for _ in range(2):
        for pid in (process.pid, worker):
            os.kill(pid, signal.SIGINT)
        time.sleep(0.05)
    assert process.wait(5) == 130
    assert lines(tmp_path, "endings") == ["aborted"]


@pytest.mark.parametrize(("presses", "ending"), [(1, "stopped"), (2, "aborted")])
def test_ctrl_c_at_a_terminal(tmp_path: Path, presses: int, ending: str) -> None:
    keyboard, terminal = pty.openpty()
    process = start_at(terminal, tmp_path, step_s=0.2, slots=4)
    wait_until(lambda: answered(tmp_path))
    for _ in range(presses):
        os.write(keyboard, b"\x03")
        time.sleep(0.05)
    assert process.wait(5) == 130
    assert lines(tmp_path, "endings") == [ending]
    os.close(terminal)
    os.close(keyboard)


def test_the_cursor_comes_back_after_a_death(tmp_path: Path) -> None:
    screen, terminal = pty.openpty()
    assert start_at(terminal, tmp_path, kills={"3": "SIGABRT"}).wait(20) == 0
    assert os.read(screen, 4096) == b"\x1b[?25h\r\n" * 3
    os.close(terminal)
    os.close(screen)


def test_what_may_have_come_from_elsewhere_takes_more_deaths(tmp_path: Path) -> None:
    assert run(tmp_path, kills={"17": "SIGKILL"}).returncode == 0
    assert restarts(tmp_path) == 4


def test_a_worker_that_dies_while_it_stops_isnt_started_again(tmp_path: Path) -> None:
    process, worker = running(tmp_path, step_s=0.3)
    process.send_signal(signal.SIGINT)
    time.sleep(0.1)
    os.kill(worker, signal.SIGKILL)
    assert process.wait(5) == 130
    assert restarts(tmp_path) == 0
    assert "the same command goes on" in lines(tmp_path, "said")[0]


def test_a_reader_of_messages_that_is_gone_is_nothing_to_die_of() -> None:
    code = """
import os, signal, sys
from cbatch.supervise import supervise

reader, writer = os.pipe()
os.close(reader)
os.dup2(writer, 2)

def work(link):
    if link.attempt < 2:
        link.heartbeat.finished = 1
        os.kill(os.getpid(), signal.SIGKILL)
    print("answered", flush=True)
    return 0

sys.exit(supervise(work, stall_timeout_s=None, say=lambda line: print(line, file=sys.stderr, flush=True)))
"""
    process = subprocess.run([sys.executable, "-c", code], stdout=subprocess.PIPE, text=True, check=False)
    assert (process.returncode, process.stdout) == (0, "answered\n")


CHILD = """
import sys
from cbatch.supervise import supervise

def work(link):
    {body}

sys.exit(supervise(work, stall_timeout_s=None, say=print))
"""


def child(body: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run([sys.executable, "-c", CHILD.format(body=body)], capture_output=True, text=True, check=False)


@pytest.mark.parametrize("code", [0, 1, 3, 130])
def test_the_exit_code_is_the_workers(code: int) -> None:
    assert child(f"return {code}").returncode == code


def test_an_exception_of_the_worker_comes_out_once() -> None:
    process = child("raise RuntimeError('no')")
    assert process.returncode == 1
    assert process.stderr.count("RuntimeError: no") == 1


def test_what_is_printed_before_comes_out_once() -> None:
    text = CHILD.format(body="return 0").replace("def work", "print('once', end='')\n\ndef work")
    process = subprocess.run([sys.executable, "-c", text], capture_output=True, text=True, check=False)
    assert process.stdout == "once"


def test_an_interrupt_before_the_worker_listens(tmp_path: Path) -> None:
    with subprocess.Popen(
        [sys.executable, "-c", CHILD.format(body="print('up', flush=True); import time; time.sleep(60)")],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        process.stdout.readline()
        process.send_signal(signal.SIGINT)
        _, err = process.communicate(timeout=5)
    assert process.returncode != 0
    assert err.count("KeyboardInterrupt") == 1


@pytest.mark.parametrize("module", ["cbatch.supervise", "cbatch.cli.app", "cbatch.cli.start"])
def test_the_parent_imports_nothing_heavy(module: str) -> None:
    heavy = ("numpy", "pyarrow", "llama_cpp")
    code = f"import sys, {module}; print([name for name in {heavy} if name in sys.modules])"
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[]"
