"""Memory doesn't grow with the number of rows. Resident memory of a long run: tests/benchmarks/bench_rows.py."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

FEW, MANY = 2_000, 8_000
BYTES_A_ROW = 100
"""For percentiles, which are exact up to 100,000 rows, it takes 32."""
MEASURE = """
import sys, tracemalloc
from pathlib import Path
from tests.benchmarks.bench_rows import play, write_rows

def kept(rows):
    folder = Path(sys.argv[1]) / str(rows)
    folder.mkdir()
    return play(write_rows(folder / "rows.jsonl", rows, "{}"), folder / "out", settled=1, window=500).kept

kept(500)  # what is loaded and cached once
tracemalloc.start()
print(*map(kept, map(int, sys.argv[2:])))
"""


def test_a_row_that_is_done_leaves_nothing_behind(tmp_path: Path) -> None:
    """A whole run over the fake runner, in a process of its own; what is held when all rows are done."""
    command = [sys.executable, "-c", MEASURE, str(tmp_path), str(FEW), str(MANY)]
    ran = subprocess.run(command, capture_output=True, text=True, check=False)
    assert ran.returncode == 0, ran.stderr
    few, many = map(int, ran.stdout.split())
    assert (many - few) / (MANY - FEW) < BYTES_A_ROW
