from __future__ import annotations

import errno
from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.errors import InputError, OutputError
from cbatch.traces import writer
from cbatch.traces.reader import read_trace
from cbatch.traces.schema import SCHEMA
from cbatch.traces.trace import Manifest, TraceRequest
from cbatch.traces.writer import TraceWriter
from tests.traces.random_requests import EXACT_NS, at, traces

PATH = "t.parquet"


def write(path: Path, requests: list[TraceRequest], manifest: Manifest | None = None) -> Path:
    with TraceWriter(path, manifest) as out:
        for request in requests:
            out.add(request)
    return path


@settings(max_examples=50)
@given(traces())
def test_what_is_written_is_read(tmp_path_factory: pytest.TempPathFactory, requests: list[TraceRequest]) -> None:
    trace = read_trace(write(tmp_path_factory.mktemp("t") / PATH, requests))
    assert list(trace) == list(trace) == requests
    assert trace.num_requests == len(requests)


@given(st.integers(0, EXACT_NS))
def test_seconds_give_back_every_nanosecond(ns: int) -> None:
    assert round(ns / 1_000_000_000 * 1e9) == ns


def test_equal_traces_are_equal_bytes(tmp_path: Path) -> None:
    requests = at(0, 1, 2)
    a = write(tmp_path / "a.parquet", requests, Manifest(source={"b": 1, "a": [2]}, changes={"y": 1, "x": 2}))
    b = write(tmp_path / "b.parquet", requests, Manifest(source={"a": [2], "b": 1}, changes={"x": 2, "y": 1}))
    assert a.read_bytes() == b.read_bytes()


def test_the_manifest_counts_until_the_end(tmp_path: Path) -> None:
    changes: Counter[str] = Counter()
    with TraceWriter(tmp_path / PATH, Manifest({"é": None}, 2.5, ("limit 3",), changes)) as out:
        out.add(TraceRequest(0, prompt_tokens=1))
        changes["x_raised_to_1"] += 7
    assert read_trace(tmp_path / PATH).manifest == Manifest({"é": None}, 2.5, ("limit 3",), {"x_raised_to_1": 7})


def test_row_groups_bound_memory(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(writer, "GROUP_ROWS", 2)
    requests = at(0, 1, 2, 3, 4)
    metadata = pq.ParquetFile(write(tmp_path / PATH, requests)).metadata
    assert [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)] == [2, 2, 1]
    assert list(read_trace(tmp_path / PATH)) == requests


def test_a_trace_of_nothing_has_its_columns(tmp_path: Path) -> None:
    assert pq.read_schema(write(tmp_path / PATH, [])).names == SCHEMA.names
    assert list(read_trace(tmp_path / PATH)) == []


def test_the_name_appears_at_the_end_and_replaces(tmp_path: Path) -> None:
    write(tmp_path / PATH, at(0))
    with TraceWriter(tmp_path / PATH) as out:
        assert sorted(p.name for p in tmp_path.iterdir()) == [f".{PATH}.tmp", PATH]
        assert read_trace(tmp_path / PATH).num_requests == 1
        out.add(at(0)[0])
        out.add(at(1)[0])
    assert [p.name for p in tmp_path.iterdir()] == [PATH]
    assert read_trace(tmp_path / PATH).num_requests == 2


def test_an_exception_leaves_nothing(tmp_path: Path) -> None:
    def broken() -> None:
        with TraceWriter(tmp_path / PATH) as out:
            out.add(at(0)[0])
            raise RuntimeError("source broke")

    with pytest.raises(RuntimeError, match="source broke"):
        broken()
    assert list(tmp_path.iterdir()) == []


def test_a_bad_request_is_refused_with_its_number(tmp_path: Path) -> None:
    with pytest.raises(
        InputError, match=r"t\.parquet can't hold request 2: arrival_s is 0\.5, before .*\(1\.0\): sort"
    ):
        write(tmp_path / PATH, [*at(1), *at(0.5)])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("refuses", ["pyarrow.parquet.ParquetWriter.write_table", "os.fsync"])
def test_a_full_disk(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, refuses: str) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(refuses, refuse)
    with pytest.raises(OutputError, match=r"t\.parquet can't be written: No space left on device"):
        write(tmp_path / PATH, at(0))
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_not_there(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"t\.parquet can't be written: No such file or directory"):
        TraceWriter(tmp_path / "missing" / PATH)
