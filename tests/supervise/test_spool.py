"""Standard input that outlives workers: every byte to each of them, at once, and not far ahead of them."""

from __future__ import annotations

import os
import subprocess
import sys
import threading
import time
from pathlib import Path

import pytest

from cbatch.errors import RunFailed
from cbatch.supervise.heartbeat import Heartbeat
from cbatch.supervise.spool import MOST_AHEAD, Spool

JOB = """
import os, signal, sys
from pathlib import Path
from cbatch.errors import CbatchError
from cbatch.supervise import supervise

folder = Path(sys.argv[1])

def work(link):
    {body}

try:
    sys.exit(supervise(work, stall_timeout_s=None, say=print, stdin_fd=0, spool_dir=folder))
except CbatchError as error:
    sys.exit(f"failed: {{error}}")
"""


def start(folder: Path, body: str, stdin: int = subprocess.PIPE) -> subprocess.Popen[bytes]:
    """A job that reads `link.stdin`."""
    code = JOB.format(body=body.strip().replace("\n", "\n    "))
    return subprocess.Popen(
        [sys.executable, "-c", code, str(folder)], stdin=stdin, stdout=subprocess.PIPE, stderr=subprocess.PIPE
    )


COPY = """
link.heartbeat.finished = 1
count = 0
for line in link.stdin:
    count += 1
    if link.attempt < 3 and count == 1000 * (link.attempt + 1):
        os.kill(os.getpid(), signal.SIGKILL)
    with (folder / f"lines-{link.attempt}").open("ab") as file:
        file.write(line)
return 0
"""


def test_each_worker_reads_all_from_the_beginning(tmp_path: Path) -> None:
    data = b"".join(b"line %d\n" % number for number in range(5000)) + b"no end"
    process = start(tmp_path, COPY)
    _, err = process.communicate(data, timeout=60)
    assert process.returncode == 0, err
    assert (tmp_path / "lines-3").read_bytes() == data
    assert len((tmp_path / "lines-2").read_bytes().splitlines()) == 2999
    assert {path.name for path in tmp_path.iterdir()} == {f"lines-{attempt}" for attempt in range(4)}


def test_a_file_is_read_where_it_is_and_from_where_it_stands(tmp_path: Path) -> None:
    path = tmp_path / "rows"
    path.write_bytes(b"before\n" + b"".join(b"line %d\n" % number for number in range(5000)))
    with path.open("rb") as file:
        os.lseek(file.fileno(), 7, os.SEEK_SET)
        process = start(tmp_path, COPY, stdin=file.fileno())
        process.communicate(timeout=60)
    assert process.returncode == 0
    assert (tmp_path / "lines-3").read_bytes() == path.read_bytes()[7:]


def test_a_line_is_there_at_once(tmp_path: Path) -> None:
    echo = """
for line in link.stdin:
    sys.stdout.buffer.write(line)
    sys.stdout.buffer.flush()
return 0
"""
    with start(tmp_path, echo) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        delays = []
        for number in range(20):
            began = time.perf_counter()
            process.stdin.write(b"line %d\n" % number)
            process.stdin.flush()
            assert process.stdout.readline() == b"line %d\n" % number
            delays.append(time.perf_counter() - began)
            time.sleep(0.01)
        process.stdin.close()
        assert process.wait(10) == 0
    assert sorted(delays)[10] < 0.05


def test_an_empty_input_ends(tmp_path: Path) -> None:
    process = start(tmp_path, "print(link.stdin.read())\nreturn 0")
    out, _ = process.communicate(b"", timeout=20)
    assert out == b"b''\n"


def test_a_worker_may_end_while_a_thread_waits_for_more(tmp_path: Path) -> None:
    body = """
import threading, time
threading.Thread(target=lambda: list(link.stdin), daemon=True).start()
time.sleep(0.2)
return 7
"""
    with start(tmp_path, body) as process:
        assert process.stdin is not None
        assert process.stderr is not None
        process.stdin.write(b"a line\nhalf")
        process.stdin.flush()
        assert process.wait(20) == 7
        assert process.stderr.read() == b""


def test_no_more_is_taken_than_the_worker_will_soon_read() -> None:
    source, writer = os.pipe()
    heart = Heartbeat()
    spool = Spool(source, None, heart)

    def write() -> None:
        block, left = bytes(1 << 20), MOST_AHEAD + (4 << 20)
        while left > 0:
            left -= os.write(writer, block[: min(left, len(block))])
        os.close(writer)

    thread = threading.Thread(target=write, daemon=True)
    thread.start()
    while not spool.full:
        spool.copy()
    reader = spool.reader()
    assert len(reader.read(8 << 20)) == 8 << 20
    assert not spool.full
    while not spool.ended:
        spool.copy()
    thread.join()
    assert heart.stdin_end == MOST_AHEAD + (4 << 20)
    assert len(reader.read()) == MOST_AHEAD - (4 << 20)
    assert heart.stdin_read == heart.stdin_end
    heart.reset()
    assert len(spool.reader().read()) == heart.stdin_end
    os.close(source)


FULL = """
import resource, signal
signal.signal(signal.SIGXFSZ, signal.SIG_IGN)
resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, 100_000))
"""


def test_a_full_disk_ends_the_run_with_a_message(tmp_path: Path) -> None:
    body = "for line in link.stdin: pass\nreturn 0"
    code = FULL + JOB.format(body=body.replace("\n", "\n    "))
    process = subprocess.Popen(
        [sys.executable, "-c", code, str(tmp_path)],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    _, err = process.communicate(b"a line\n" * 50_000, timeout=20)
    assert process.returncode == 1
    assert err.startswith(b"failed: stdin can't be kept")
    assert b"File too large" in err
    assert b"give a file instead of -" in err


def test_a_folder_that_cant_be_written_isnt_needed(tmp_path: Path) -> None:
    source, writer = os.pipe()
    spool = Spool(source, tmp_path / "none", Heartbeat())
    os.write(writer, b"hello\n")
    os.close(writer)
    while not spool.ended:
        spool.copy()
    assert spool.reader().readlines() == [b"hello\n"]
    os.close(source)


def test_no_place_at_all(monkeypatch: pytest.MonkeyPatch) -> None:
    source, writer = os.pipe()
    monkeypatch.setattr("tempfile.TemporaryFile", _refuse)
    with pytest.raises(RunFailed, match=r"no place to keep stdin: No space left.*give a file"):
        Spool(source, None, Heartbeat())
    os.close(source)
    os.close(writer)


def _refuse(**_options: object) -> None:
    raise OSError(28, "No space left on device")
