from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow.parquet as pq
import pytest

from cbatch.clock import VirtualClock
from cbatch.errors import UsageError
from cbatch.metrics import Attribution
from cbatch.outputs import RunWriter, WriteError, results, schema
from cbatch.outputs.parquet import ParquetTable
from cbatch.types import FinishReason, Observer, TimeSplit
from tests.metrics.factories import (
    STEP_NUMBERS,
    make_fault,
    make_output,
    make_ref,
    make_samples,
    make_step,
    no_view,
    spell,
)

REFS = [
    make_ref(1, {"label": "a", "weight": 1, "gold": True, "score": 0.5, "tags": ["x"]}),
    make_ref(2, {"label": None, "weight": 2, "gold": False, "score": 2, "tags": {}}),
]


def open_writer(directory: Path, output_format: str = "parquet") -> RunWriter:
    return RunWriter(
        directory,
        output_format=output_format,
        sample=REFS,
        model="smollm2",
        clock=VirtualClock(),
        token_bytes=spell,
    )


def write_run(directory: Path, output_format: str = "parquet") -> None:
    with open_writer(directory, output_format) as writer:
        times = TimeSplit(prefill_ns=2, decode_ns=1, others_prefill_ns=1)
        done = make_output(
            [4, 6, 9],
            arrival_ns=1,
            admitted_ns=2,
            text="hi",
            priority=-1,
            slot=3,
            times=times,
            cached_tokens=2,
            preemptions=1,
        )
        writer.finished(REFS[0], done)
        writer.finished(REFS[1], make_output(finished_ns=5, reason=FinishReason.ERROR, error="broke", slot=None))
        writer.fault(make_fault(3))
        writer.step(make_step(step=0, decode_call_ns=1, prefill_call_ns=2, mixed_call_ns=4), no_view)


def names(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def test_it_is_an_observer(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        observer: Observer = writer
        assert observer is not None


def test_pyarrow_reads_what_was_written(tmp_path: Path) -> None:
    write_run(tmp_path)
    assert names(tmp_path) == {"results/part-00000.parquet", "requests.parquet", "steps.parquet"}
    assert pq.read_schema(tmp_path / "requests.parquet").equals(schema.REQUESTS, check_metadata=True)
    done, failed = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    assert done == {
        "row": 1,
        "id": "row-1",
        "sample": 0,
        "arrival_ns": 1,
        "enqueued_ns": 1,
        "admitted_ns": 2,
        "first_token_ns": 4,
        "token_ns": [4, 6, 9],
        "finished_ns": 9,
        "prompt_tokens": 3,
        "cached_tokens": 2,
        "output_tokens": 3,
        "finish_reason": "stop",
        "slot": 3,
        "priority": -1,
        "preemptions": 1,
        "slip_ns": 0,
        "queue_ns": 1,
        "ttft_ns": 3,
        "tpot_ns": 2.5,
        "e2e_ns": 8,
        "normalized_latency_ns": 8 / 3,
        "attribution": {
            "slip_ns": 0,
            "queue_ns": 1,
            "prefill_ns": 2,
            "decode_ns": 1,
            "others_prefill_ns": 1,
            "others_decode_ns": 0,
            "preempted_ns": 0,
            "other_ns": 3,
        },
    }
    assert failed["token_ns"] == []
    assert [failed[n] for n in ("slot", "admitted_ns", "first_token_ns", "ttft_ns", "tpot_ns")] == [None] * 5


def test_requests_have_a_line_for_each_sample_and_its_time_adds_up(tmp_path: Path) -> None:
    first = make_output([4, 6], arrival_ns=1, admitted_ns=2, times=TimeSplit(prefill_ns=1, decode_ns=2))
    second = make_output([5, 6, 9], arrival_ns=1, admitted_ns=3, times=TimeSplit(decode_ns=4), cached_tokens=2, slot=1)
    with open_writer(tmp_path) as writer:
        writer.finished(REFS[0], make_samples(first, second))
        writer.finished(REFS[1], make_output([7]))
    found = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    names = ("row", "sample", "output_tokens", "cached_tokens", "slot", "ttft_ns", "e2e_ns")
    assert [tuple(line[name] for name in names) for line in found] == [
        (1, 0, 2, 0, 0, 3, 5),
        (1, 1, 3, 2, 1, 4, 8),
        (2, 0, 1, 0, 0, 7, 7),
    ]
    assert [sum(line["attribution"].values()) for line in found] == [5, 8, 7]
    assert pq.read_table(tmp_path / "results")["row"].to_pylist() == [1, 2]


def test_steps_have_every_field_of_a_record(tmp_path: Path) -> None:
    values = {name: i for i, name in enumerate(STEP_NUMBERS, 1)}
    with open_writer(tmp_path) as writer:
        writer.step(make_step(**values), no_view)
    [step] = pq.read_table(tmp_path / "steps.parquet").to_pylist()
    llama = values["decode_call_ns"] + values["prefill_call_ns"] + values["mixed_call_ns"]
    assert step == {**values, "llama_ns": llama}


def test_every_column_says_what_it_is() -> None:
    for table in (schema.results(()), schema.REQUESTS, schema.STEPS):
        assert all(b"description" in (column.metadata or {}) for column in table)


def test_the_parts_of_a_request_s_time_have_their_fields_and_say_what_they_are() -> None:
    parts = schema.REQUESTS.field("attribution").type
    assert tuple(part.name for part in parts) == Attribution._fields
    assert all(not part.nullable and part.metadata[b"description"] for part in parts)


def test_duckdb_reads_where_the_time_went(tmp_path: Path) -> None:
    write_run(tmp_path)
    parts = " + ".join(f"attribution.{name}" for name in Attribution._fields)
    query = f"SELECT attribution.queue_ns, {parts}, e2e_ns FROM '{tmp_path}/requests.parquet' ORDER BY row"
    with duckdb.connect() as connection:
        assert connection.sql(query).fetchall() == [(1, 8, 8), (5, 5, 5)]


def test_duckdb_reads_the_types(tmp_path: Path) -> None:
    write_run(tmp_path)
    with duckdb.connect() as connection:
        described = connection.sql(f"DESCRIBE FROM '{tmp_path}/results/*.parquet'").fetchall()
        types = {name: kind.replace('"', "") for name, kind, *_ in described}
        places = "STRUCT(token_id INTEGER, logprob DOUBLE, top STRUCT(token_id INTEGER, logprob DOUBLE)[])[]"
        assert types == {
            "row": "BIGINT",
            "id": "VARCHAR",
            "label": "VARCHAR",
            "weight": "BIGINT",
            "gold": "BOOLEAN",
            "score": "DOUBLE",
            "tags": "VARCHAR",
            "prompt_tokens": "BIGINT",
            "truncated_tokens": "BIGINT",
            "output_text": "VARCHAR",
            "output_tokens": "BIGINT",
            "dropped_tokens": "BIGINT",
            "finish_reason": "VARCHAR",
            "error_code": "VARCHAR",
            "error": "VARCHAR",
            "samples": "STRUCT(sample BIGINT, output_text VARCHAR, output_tokens BIGINT, finish_reason VARCHAR, "
            f"error VARCHAR, mean_logprob DOUBLE, logprobs {places})[]",
            "logprobs": places,
            "prompt_logprobs": places,
            "carried_json": "VARCHAR",
        }
        query = f"SELECT ttft_ns, list_sum(token_ns) FROM '{tmp_path}/requests.parquet' ORDER BY row"
        assert connection.sql(query).fetchall() == [(3, 19), (None, None)]
        assert connection.sql(f"SELECT llama_ns FROM '{tmp_path}/steps.parquet'").fetchall() == [(7,)]


def test_pandas_reads_the_types(tmp_path: Path) -> None:
    write_run(tmp_path)
    found = pd.read_parquet(tmp_path / "results")
    assert found["row"].dtype == np.int64
    assert found["score"].dtype == np.float64
    assert found["output_text"].tolist()[0] == "hi"
    requests = pd.read_parquet(tmp_path / "requests.parquet")
    assert requests["arrival_ns"].dtype == np.int64
    assert requests["token_ns"][0].tolist() == [4, 6, 9]


def test_polars_reads_the_types(tmp_path: Path) -> None:
    write_run(tmp_path)
    found = pl.read_parquet(tmp_path / "results" / "*.parquet")
    assert found.schema["gold"] == pl.Boolean
    assert found.schema["weight"] == pl.Int64
    assert found["tags"].to_list() == ['["x"]', "{}", None]
    requests = pl.read_parquet(tmp_path / "requests.parquet")
    assert requests.schema["token_ns"] == pl.List(pl.Int64)
    assert requests.schema["tpot_ns"] == pl.Float64
    assert pl.read_parquet(tmp_path / "steps.parquet").schema["kv_used_cells"] == pl.Int64


def test_jsonl_replaces_the_results_only(tmp_path: Path) -> None:
    write_run(tmp_path, "jsonl")
    assert names(tmp_path) == {"results.jsonl", "requests.parquet", "steps.parquet"}
    assert len((tmp_path / "results.jsonl").read_text().splitlines()) == 3


def test_an_unknown_format_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output-format is 'csv': give parquet or jsonl"):
        open_writer(tmp_path, "csv")
    assert names(tmp_path) == set()


@pytest.mark.parametrize("output_format", ["parquet", "jsonl"])
def test_a_writer_that_can_not_begin_leaves_no_file(tmp_path: Path, output_format: str) -> None:
    before = len(list(Path("/proc/self/fd").iterdir())) if Path("/proc").exists() else None
    (tmp_path / ".steps.parquet.tmp").mkdir()
    with pytest.raises(WriteError, match=r"steps\.parquet can't be written: Is a directory"):
        open_writer(tmp_path, output_format)
    assert names(tmp_path) == set()
    assert before is None or len(list(Path("/proc/self/fd").iterdir())) == before


def test_steps_take_waiting_results_to_disk(tmp_path: Path) -> None:
    clock = VirtualClock()
    writer = RunWriter(tmp_path, output_format="parquet", sample=REFS, model="m", clock=clock, token_bytes=spell)
    writer.finished(REFS[0], make_output([1]))
    clock.advance(results.PART_NS)
    writer.step(make_step(), no_view)
    assert pq.read_metadata(tmp_path / "results" / "part-00000.parquet").num_rows == 1
    writer.close()


def test_a_killed_run_keeps_the_parts_that_were_full(tmp_path: Path) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from tests.outputs.test_writer import make_fault, open_writer\n"
        "writer = open_writer(pathlib.Path(sys.argv[1]))\n"
        "for _ in range(5001): writer.fault(make_fault(1))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    assert subprocess.run([sys.executable, "-c", script, str(tmp_path)], check=False).returncode == -9
    assert pq.read_metadata(tmp_path / "results" / "part-00000.parquet").num_rows == 5000


@pytest.mark.parametrize("output_format", ["parquet", "jsonl"])
def test_a_killed_run_leaves_no_final_name(tmp_path: Path, output_format: str) -> None:
    script = (
        "import os, sys, pathlib\n"
        "from tests.outputs.test_writer import REFS, make_output, open_writer\n"
        "writer = open_writer(pathlib.Path(sys.argv[1]), sys.argv[2])\n"
        "for _ in range(2500): writer.finished(REFS[0], make_output([1]))\n"
        "os.kill(os.getpid(), 9)\n"
    )
    done = subprocess.run([sys.executable, "-c", script, str(tmp_path), output_format], check=False)
    assert done.returncode == -9
    assert names(tmp_path)
    assert all(Path(name).name.startswith(".") and name.endswith(".tmp") for name in names(tmp_path))


def test_an_exception_of_the_run_keeps_what_was_finished(tmp_path: Path) -> None:
    def run(writer: RunWriter) -> None:
        with writer:
            writer.finished(REFS[0], make_output([1], text="kept"))
            raise RuntimeError("engine")

    writer = open_writer(tmp_path)
    with pytest.raises(RuntimeError, match="engine"):
        run(writer)
    writer.close()
    assert pq.read_table(tmp_path / "results")["output_text"].to_pylist() == ["kept"]
    assert pq.read_metadata(tmp_path / "requests.parquet").num_rows == 1


def test_one_file_that_fails_does_not_cost_the_others(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(tmp_path)
    writer.finished(REFS[0], make_output([1]))
    close = ParquetTable.close

    def refuse_requests(table: ParquetTable) -> None:
        if table is writer._requests:
            raise WriteError("requests.parquet can't be written: No space left on device")
        close(table)

    monkeypatch.setattr(ParquetTable, "close", refuse_requests)
    with pytest.raises(WriteError, match=r"requests\.parquet"):
        writer.close()
    assert names(tmp_path) == {"results/part-00000.parquet", "steps.parquet", ".requests.parquet.tmp"}
    writer._requests.discard()


def test_memory_is_bounded(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for _ in range(2500):
        writer.finished(REFS[0], make_output([1]))
        assert len(writer._requests._pending) < 1000
    for _ in range(10_000):
        writer.step(make_step(), no_view)
    assert not writer._steps._pending
    writer.close()
