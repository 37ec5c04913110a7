"""Ctrl-C once and twice, and SIGTERM: what is done stays, and the message says what is left."""

from __future__ import annotations

import shlex
import signal
import subprocess
import time
from pathlib import Path

import pytest

from tests.e2e.command import await_rows, cbatch, command, results, run_json, write_rows


def start(tmp_path: Path, model: Path, max_tokens: int) -> subprocess.Popen[str]:
    short = [{"prompt": f"row {i}", "max_tokens": 2, "priority": "high"} for i in range(4)]
    long = [{"prompt": f"row {i}", "max_tokens": max_tokens} for i in range(60)]
    rows = write_rows(tmp_path / "rows.jsonl", [*short, *long])
    process = subprocess.Popen(
        command("run", rows, "-m", model, "-t", 1, "--max-num-seqs", 2, "--ignore-eos", "-o", tmp_path / "out"),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    await_rows(process, tmp_path / "out")
    time.sleep(0.7)
    return process


def test_ctrl_c_once_finishes_what_runs(tmp_path: Path, tiny_model: Path) -> None:
    process = start(tmp_path, tiny_model, max_tokens=1500)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopping" in err
    answers = results(tmp_path / "out")
    assert len(answers) >= 5
    assert {row["output_tokens"] for row in answers} == {2, 1500}
    assert f"{64 - len(answers)} rows are left" in out
    assert run_json(tmp_path / "out")["status"] == "stopped"


@pytest.mark.parametrize("signals", [(signal.SIGINT, signal.SIGINT), (signal.SIGTERM,)])
def test_ctrl_c_twice_or_sigterm_stops_now(
    tmp_path: Path, tiny_model: Path, signals: tuple[signal.Signals, ...]
) -> None:
    process = start(tmp_path, tiny_model, max_tokens=1900)
    for number in signals:
        process.send_signal(number)
        time.sleep(0.05)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    answers = results(tmp_path / "out")
    assert [row["output_tokens"] for row in answers[:4]] == [2, 2, 2, 2]
    assert f"{64 - len(answers)} rows are left" in out
    assert run_json(tmp_path / "out")["status"] == "aborted"


def test_signals_that_are_ignored_stay_ignored(tmp_path: Path, tiny_model: Path) -> None:
    """As under nohup."""
    rows = write_rows(tmp_path / "rows.jsonl", [{"prompt": f"row {i}", "max_tokens": 400} for i in range(12)])
    line = shlex.join(command("run", rows, "-m", tiny_model, "-t", 1, "--ignore-eos", "-o", tmp_path / "out"))
    process = subprocess.Popen(["bash", "-c", f"trap '' HUP; exec {line}"], stderr=subprocess.PIPE, text=True)
    while not (tmp_path / "out").exists() and process.poll() is None:
        time.sleep(0.02)
    for _ in range(10):
        process.send_signal(signal.SIGHUP)
        time.sleep(0.05)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    assert len(results(tmp_path / "out")) == 12


def test_interrupting_a_run_that_waits_for_input(tmp_path: Path, tiny_model: Path) -> None:
    with subprocess.Popen(
        command("run", "-", "-m", tiny_model, "-t", 1, "-o", tmp_path / "out"),
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b'"hi"\n')
        process.stdin.flush()
        await_rows(process, tmp_path / "out")
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert b"Fatal" not in process.stderr.read()
    assert len(results(tmp_path / "out")) == 1


@pytest.mark.parametrize("more", [(), ("--format", "csv", "--no-supervise")])
def test_interrupting_a_run_before_its_first_row(tmp_path: Path, tiny_model: Path, more: tuple[str, ...]) -> None:
    with subprocess.Popen(
        command("run", "-", "-m", tiny_model, "-t", 1, "-o", tmp_path / "out", *more),
        stdin=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        time.sleep(5)  # the worker is waiting by then, also on a busy machine
        process.send_signal(signal.SIGINT)
        assert process.wait(timeout=20) == 130
        assert process.stderr is not None
        err = process.stderr.read()
    assert b"nothing was written" in err
    assert b"Fatal" not in err
    assert not (tmp_path / "out").exists()


def test_interrupting_a_run_that_waits_for_what_it_knows_of_its_input(tmp_path: Path, tiny_model: Path) -> None:
    arguments = ("run", "-", "-m", tiny_model, "-t", 1, "--max-tokens", 2, "-o", tmp_path / "out")
    assert cbatch(*arguments, stdin=b'"one"\n"two"\n').code == 0
    before = run_json(tmp_path / "out")
    with subprocess.Popen(command(*arguments), stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        assert process.stdin is not None
        process.stdin.write(b'"one"\n')
        process.stdin.flush()
        time.sleep(5)
        process.send_signal(signal.SIGTERM)
        assert process.wait(timeout=20) == 130
    assert run_json(tmp_path / "out") == before


@pytest.mark.parametrize("gap_s", [0.0, 0.004, 0.02])
def test_signals_while_closing_lose_nothing(tmp_path: Path, tiny_model: Path, gap_s: float) -> None:
    process = start(tmp_path, tiny_model, max_tokens=1900)
    for _ in range(5):
        process.send_signal(signal.SIGTERM)
        time.sleep(gap_s)
    _, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert len(results(tmp_path / "out")) >= 4
    assert run_json(tmp_path / "out")["status"] == "aborted"
