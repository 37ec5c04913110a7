"""Real processes that are killed, or refused by the system."""

from __future__ import annotations

import random
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from cbatch.outputs import open_stored
from tests.outputs.sessions import read_rows, run_session

_ROWS = """
import sys, time
from pathlib import Path
from tests.outputs.sessions import end_row, open_writer

writer = open_writer(Path(sys.argv[1]), sys.argv[2])
for row in range(1, 100_000):
    end_row(writer, row, text=f"of row {row}")
    print(row, time.monotonic(), flush=True)
    time.sleep(0.001)  # as in a native call
"""


@pytest.mark.parametrize(("output_format", "seed"), [("parquet", 1), ("jsonl", 2)])
def test_a_killed_process_loses_a_second_at_most(tmp_path: Path, output_format: str, seed: int) -> None:
    command = [sys.executable, "-c", _ROWS, str(tmp_path), output_format]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as child:
        assert child.stdout is not None
        child.stdout.readline()
        time.sleep(random.Random(seed).uniform(1.1, 1.6))
        killed = time.monotonic()
        child.send_signal(signal.SIGKILL)
        told = [line.split() for line in child.stdout.read().splitlines()]
    finished = [int(row) for row, at in (line for line in told if len(line) == 2) if float(at) < killed - 1.0]
    assert finished
    stored = open_stored(tmp_path, output_format)
    assert all(row in stored.done for row in finished)
    count = max(stored.done) + 3
    run_session(tmp_path, output_format, range(1, count + 1))
    assert read_rows(tmp_path, output_format) == [(row, f"of row {row}") for row in range(1, count + 1)]


_LIMITED = """
import resource, sys
from pathlib import Path
from cbatch.outputs import WriteError
from tests.outputs.sessions import commit_at_once, end_row, open_writer
import pytest

limit = int(sys.argv[2])
with pytest.MonkeyPatch.context() as patches:
    commit_at_once(patches, segment_rows=1_000)
    writer = open_writer(Path(sys.argv[1]))
    resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
    try:
        for row in range(1, 1_000):
            end_row(writer, row, text=f"of row {row}")
            print(row)
    except WriteError as error:
        print(error)
    writer.close()
"""


@pytest.mark.parametrize("limit", [100, 20_000, 20_001])
def test_a_real_refusal_keeps_every_row_before(tmp_path: Path, limit: int) -> None:
    command = [sys.executable, "-c", _LIMITED, str(tmp_path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    *rows, message = done.stdout.splitlines()
    assert "00000.wal can't be written: File too large. What was finished before is kept." in message
    assert done.stderr == ""
    stored = open_stored(tmp_path, "parquet")
    assert list(stored.done) == list(range(1, len(rows) + 1))
    assert (len(rows) > 0) == (limit > 100)
    run_session(tmp_path, "parquet", range(1, len(rows) + 2))
    assert [row for row, _ in read_rows(tmp_path)] == list(range(1, len(rows) + 2))
