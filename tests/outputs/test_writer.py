from __future__ import annotations

import errno
import gc
import os
import threading
import time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.clock import VirtualClock
from cbatch.errors import UsageError
from cbatch.metrics import Attribution
from cbatch.outputs import RunWriter, WriteError, open_stored, schema
from cbatch.outputs.journal import journal
from cbatch.outputs.journal.reader import SegmentReader
from cbatch.types import FinishReason, Observer, RequestOutput, RowRef, TimeSplit
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
from tests.outputs.sessions import commit_at_once, end_row

REFS = [
    make_ref(1, {"label": "a", "weight": 1, "gold": True, "score": 0.5, "tags": ["x"]}),
    make_ref(2, {"label": None, "weight": 2, "gold": False, "score": 2, "tags": {}}),
]


def open_writer(directory: Path, output_format: str = "parquet", **options: Any) -> RunWriter:
    return RunWriter(
        directory,
        output_format=output_format,
        sample=REFS,
        model="smollm2",
        clock=VirtualClock(),
        token_bytes=spell,
        **options,
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
    for found, wanted in zip(pq.read_schema(tmp_path / "requests.parquet"), schema.REQUESTS, strict=True):
        assert found.equals(wanted, check_metadata=True)
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


def test_an_unknown_choice_is_a_usage_error(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match="output-format is 'tsv': give parquet, jsonl or csv"):
        open_writer(tmp_path, "tsv")
    with pytest.raises(UsageError, match="order is 'random': give input or completion"):
        open_writer(tmp_path, order="random")
    assert names(tmp_path) == set()


def test_a_writer_touches_nothing_before_the_first_row(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    assert list(tmp_path.iterdir()) == []
    writer.close()
    writer.close()
    assert names(tmp_path) == {"results/part-00000.parquet", "requests.parquet", "steps.parquet"}
    assert pq.read_table(tmp_path / "results").num_rows == 0


def wait_until_durable(directory: Path, count: int, within_s: float) -> None:
    """Until so many results are in the open segment."""
    until = time.monotonic() + within_s
    path = directory / "journal" / "00000.wal"
    found = -1
    while found < count:
        assert time.monotonic() < until, f"{found} of {count} rows are durable"
        time.sleep(0.01)
        found = sum(b["results"].num_rows for b in SegmentReader(path) if "results" in b) if path.exists() else 0


@pytest.mark.parametrize("output_format", ["parquet", "jsonl", "csv"])
def test_a_finished_row_is_durable_within_a_second(tmp_path: Path, output_format: str) -> None:
    """While the engine's thread makes no call: it is in a native one."""
    writer = open_writer(tmp_path, output_format)
    writer.finished(REFS[0], make_output([1]))
    wait_until_durable(tmp_path, 1, within_s=1.0)
    writer.fault(make_fault(2))
    wait_until_durable(tmp_path, 2, within_s=1.0)
    writer.close()
    assert not (tmp_path / "journal").exists()


def test_many_rows_are_durable_at_once(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for number in range(1, 1_001):
        writer.fault(make_fault(number))
    wait_until_durable(tmp_path, 1_000, within_s=0.45)
    writer.close()


def test_parts_appear_while_the_run_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_at_once(monkeypatch, segment_rows=2)
    writer = open_writer(tmp_path)
    for row in range(1, 6):
        end_row(writer, row)
    assert {name for name in names(tmp_path) if not name.endswith(".wal")} == {
        *(f"results/part-0000{part}.parquet" for part in range(2)),
        *(f"journal/{table}-0000{part}.parquet" for part in range(2) for table in ("requests", "steps")),
    } | {f"journal/steps-0000{part}.parquet" for part in range(2)}
    assert pq.read_table(tmp_path / "results")["row"].to_pylist() == [1, 2, 3, 4]
    writer.close()
    assert pq.read_table(tmp_path / "results")["row"].to_pylist() == [1, 2, 3, 4, 5]
    assert pq.read_table(tmp_path / "steps.parquet")["step"].to_pylist() == [1, 2, 3, 4, 5]


def test_parts_appear_some_time_after_their_first_row(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_at_once(monkeypatch)
    clock = VirtualClock()
    writer = RunWriter(tmp_path, output_format="parquet", sample=REFS, model="m", clock=clock, token_bytes=spell)
    end_row(writer, 1)
    clock.advance(journal.SEGMENT_NS)
    writer.step(make_step(), no_view)
    assert pq.read_metadata(tmp_path / "results" / "part-00000.parquet").num_rows == 1
    assert not (tmp_path / "journal" / "00000.wal").exists()
    writer.close()


def test_parts_appear_when_a_segment_is_large(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_at_once(monkeypatch, segment_rows=5_000)
    monkeypatch.setattr(journal, "SEGMENT_BYTES", 20_000)
    writer = open_writer(tmp_path)
    rng = np.random.default_rng(0)
    for row in range(1, 9):
        end_row(writer, row, text=rng.bytes(5_000).hex())
    assert (tmp_path / "results" / "part-00000.parquet").exists()
    writer.close()
    assert pq.read_table(tmp_path / "results")["row"].to_pylist() == list(range(1, 9))


def test_a_complete_run_is_in_input_order(tmp_path: Path) -> None:
    with open_writer(tmp_path) as writer:
        for row in (3, 1, 2):
            end_row(writer, row)
        writer.complete()
    assert pq.read_table(tmp_path / "results")["row"].to_pylist() == [1, 2, 3]
    assert pq.read_table(tmp_path / "requests.parquet")["row"].to_pylist() == [3, 1, 2]


def test_or_in_the_order_of_completion(tmp_path: Path) -> None:
    with open_writer(tmp_path, order="completion") as writer:
        for row in (3, 1, 2):
            end_row(writer, row)
        writer.complete()
    assert pq.read_table(tmp_path / "results")["row"].to_pylist() == [3, 1, 2]


TYPED: list[tuple[str, pa.DataType, list[Any]]] = [
    ("small", pa.int32(), [1, None, -(2**31)]),
    ("byte", pa.uint8(), [255, 0, None]),
    ("single", pa.float32(), [0.5, None, float("inf")]),
    ("plain", pa.int64(), [2**62, None, 0]),
    ("at", pa.timestamp("ns", "UTC"), [2**60 + 1, None, -1]),
    ("milliseconds", pa.timestamp("ms"), [1, None, 2]),
    ("day", pa.date32(), [1, None, 2]),
    ("time", pa.time64("us"), [1, None, 2]),
    ("took", pa.duration("s"), [1, None, 2]),
    ("price", pa.decimal128(9, 2), ["1.50", None, "-3.25"]),
    ("raw", pa.binary(), [b"\xff", None, b""]),
    ("key", pa.binary(2), [b"ab", None, b"cd"]),
    ("long", pa.large_string(), ["é", None, ""]),
    ("tags", pa.list_(pa.string()), [["a", None], None, []]),
    ("pair", pa.list_(pa.int16(), 2), [[1, 2], None, [3, 4]]),
    ("nested", pa.struct([("a", pa.int8()), ("b", pa.list_(pa.date32()))]), [{"a": 1, "b": [1]}, None, {"a": None}]),
    ("map", pa.map_(pa.string(), pa.int32()), [[("k", 1)], None, []]),
]


def typed_array(kind: pa.DataType, values: list[Any]) -> pa.Array:
    return pa.array(values, kind) if not pa.types.is_decimal(kind) else pa.array(values, pa.string()).cast(kind)


@pytest.mark.parametrize("complete", [True, False])
@pytest.mark.parametrize("target", [None, "answers.parquet"])
def test_columns_of_typed_sources_keep_their_types(
    tmp_path: Path, complete: bool, target: str | None, monkeypatch: pytest.MonkeyPatch
) -> None:
    commit_at_once(monkeypatch, segment_rows=2)
    arrays = {name: typed_array(kind, values) for name, kind, values in TYPED}
    rows = [{name: array[i] for name, array in arrays.items()} for i in range(3)]
    path = None if target is None else tmp_path / target
    types = {name: kind for name, kind, _ in TYPED}
    with open_writer(tmp_path, carried_types=types, target=path) as writer:
        for row in (2, 0, 1):
            writer.finished(make_ref(row + 1, rows[row]), make_output([1]))
        if complete:
            writer.complete()
    whole = path if complete and path is not None else tmp_path / "results"
    table = pq.read_table(whole).sort_by("row")
    for name, array in arrays.items():
        assert table.schema.field(name).type == array.type
        assert table[name].combine_chunks().equals(array)
    assert table["carried_json"].to_pylist() == [None] * 3


def test_times_of_whole_seconds_get_milliseconds_as_parquet_has_them(tmp_path: Path) -> None:
    types = {"at": pa.timestamp("s", "UTC"), "time": pa.time32("s"), "list": pa.list_(pa.timestamp("s"))}
    ref = make_ref(1, {"at": pa.scalar(1, types["at"]), "time": pa.scalar(2, types["time"]), "list": None})
    with open_writer(tmp_path, carried_types=types) as writer:
        writer.finished(ref, make_output([1]))
    table = pq.read_table(tmp_path / "results")
    assert table.schema.field("at").type == pa.timestamp("ms", "UTC")
    assert (table["at"][0].value, table["time"][0].value) == (1_000, 2_000)
    assert table["carried_json"].to_pylist() == ['{"list": null}']


@pytest.mark.parametrize("output_format", ["jsonl", "csv"])
def test_every_type_has_a_text(tmp_path: Path, output_format: str) -> None:
    arrays = {name: typed_array(kind, values) for name, kind, values in TYPED}
    types = {name: kind for name, kind, _ in TYPED}
    with open_writer(tmp_path, output_format, carried_types=types) as writer:
        for row in range(3):
            carried = {name: array[row] for name, array in arrays.items()}
            writer.finished(make_ref(row + 1, carried), make_output([1]))
        writer.complete()
    text = (tmp_path / f"results.{output_format}").read_text("utf-8")
    for form in ("2006-07-14", "1.50", "1970-01-02", "inf", "é"):
        assert form in text


def refuse(*_: Any) -> int:
    raise OSError(errno.ENOSPC, "No space left on device")


def test_a_full_disk_is_told_at_the_next_call_and_costs_nothing_before(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = open_writer(tmp_path)
    end_row(writer, 1, text="kept")
    wait_until_durable(tmp_path, 1, within_s=2.0)
    with monkeypatch.context() as patches:
        patches.setattr(os, "write", refuse)
        end_row(writer, 2)
        writer._committer._thread.join(2)
    with pytest.raises(WriteError, match=r"00000\.wal can't be written: No space left on device\. What was finished"):
        writer.step(make_step(), no_view)
    writer.close()
    stored = open_stored(tmp_path, "parquet")
    assert list(stored.done) == [1]
    assert stored.dropped_bytes == 0
    with open_writer(tmp_path, stored=stored) as again:
        end_row(again, 2, text="too")
        again.complete()
    assert pq.read_table(tmp_path / "results")["output_text"].to_pylist() == ["kept", "too"]


def test_a_full_disk_that_nobody_heard_of_is_told_by_close(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "write", refuse)
    writer = open_writer(tmp_path)
    end_row(writer, 1)
    with pytest.raises(WriteError, match="No space left"):
        writer.close()
    writer.close()


@pytest.mark.parametrize("output_format", ["parquet", "jsonl", "csv"])
def test_a_disk_that_is_full_when_all_is_merged_loses_nothing(
    tmp_path: Path, output_format: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored = open_stored(tmp_path, output_format)
    writer = open_writer(tmp_path, output_format, stored=stored)
    end_row(writer, 2)
    end_row(writer, 1)
    with monkeypatch.context() as patches:
        patches.setattr("cbatch.outputs.swap.publish", refuse)
        with pytest.raises(WriteError, match="No space left"), writer:
            writer.complete()
    again = open_stored(tmp_path, output_format)
    assert list(again.done) == [1, 2]
    assert not again.complete
    with open_writer(tmp_path, output_format, stored=again) as resumed:
        resumed.complete()
    found = open_stored(tmp_path, output_format)
    assert found.complete
    assert len(found.done) == 2


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


def test_what_cannot_be_rendered_is_raised_as_it_is(tmp_path: Path) -> None:
    def is_chat(ref: RowRef) -> bool:
        raise RuntimeError("no template")

    writer = open_writer(tmp_path, "jsonl", is_chat=is_chat)
    end_row(writer, 1)
    with pytest.raises(RuntimeError, match="no template"):
        writer.close()


def test_no_thread_is_left(tmp_path: Path) -> None:
    before = threading.active_count()
    with open_writer(tmp_path) as writer:
        end_row(writer, 1)
    assert threading.active_count() == before


def test_nothing_of_a_row_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    commit_at_once(monkeypatch, segment_rows=50)
    with open_writer(tmp_path) as writer:
        for row in range(1, 301):
            end_row(writer, row)
        gc.collect()
        assert sum(isinstance(thing, RequestOutput) for thing in gc.get_objects()) < 60
