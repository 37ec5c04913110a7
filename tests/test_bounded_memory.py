"""Memory doesn't grow with the number of rows: a run over the fake runner in a process of its own."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

ROWS, SETTLED = 30_000, 10_000
BYTES_A_ROW = 200
"""To keep as much of each row, or more, is a failure."""
MEASURE = """
import sys
from pathlib import Path
from tests.benchmarks.bench_rows import play, write_rows
folder = Path(sys.argv[1])
source = write_rows(folder / "rows.jsonl", {rows})
print(play(source, folder / "out", settled={settled}, window=1000).growth)
"""


@pytest.mark.skipif(sys.platform != "linux", reason="other systems tell no resident memory that is worth comparing")
def test_a_row_that_is_done_leaves_nothing_behind(tmp_path: Path) -> None:
    code = MEASURE.format(rows=ROWS, settled=SETTLED)
    ran = subprocess.run([sys.executable, "-c", code, str(tmp_path)], capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    assert int(ran.stdout) < BYTES_A_ROW * (ROWS - SETTLED)
