"""What `bench_between` makes of a table of steps."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.outputs import schema
from tests.benchmarks.bench_between import figures


def test_the_parts_of_a_step_add_up_to_the_wall_time(tmp_path: Path) -> None:
    given = [
        {"start_ns": 0, "end_ns": 9_000, "llama_ns": 5_000, "sample_ns": 2_000, "output_tokens": 1},
        {"start_ns": 10_000, "end_ns": 20_000, "llama_ns": 9_000, "schedule_ns": 500, "output_tokens": 3},
    ]
    given[1] |= {"decode_call_ns": 9_000, "decode_seqs": 2, "slots_total": 2}
    rows = [{**dict.fromkeys(schema.STEPS.names, 0), "slots_total": 2, **row} for row in given]
    pq.write_table(pa.Table.from_pylist(rows, schema=schema.STEPS), tmp_path / "steps.parquet")
    found = figures(tmp_path / "steps.parquet")
    assert found.share == pytest.approx(0.7)
    assert found.tokens_per_s == pytest.approx(4 / 20e-6)
    assert found.decode_ms == pytest.approx(0.009)
    assert found.parts_us == pytest.approx((7.0, 0.25, 1.0, 1.25, 0.5))
    assert sum(found.parts_us) * 2 == pytest.approx(20.0)
