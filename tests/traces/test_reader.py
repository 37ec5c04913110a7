from __future__ import annotations

from pathlib import Path
from typing import Any

import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.errors import InputError
from cbatch.traces.reader import read_trace
from cbatch.traces.trace import Manifest, TraceRequest


def save(folder: Path, columns: dict[str, Any]) -> Path:
    path = folder / "t.parquet"
    pq.write_table(pa.table(columns), path)
    return path


def refusal(path: Path) -> str:
    with pytest.raises(InputError) as caught:
        list(read_trace(path))
    return str(caught.value).replace(str(path), "T")


def row_refusal(folder: Path, **columns: Any) -> str:
    """Of a trace with the row in question second."""
    good: dict[str, list[Any]] = {"arrival_s": [0.0], "prompt_tokens": [1]}
    names = good.keys() | columns.keys()
    row = {"arrival_s": 1.0, "prompt_tokens": 1} | columns
    return refusal(save(folder, {name: [*good.get(name, [None]), row[name]] for name in sorted(names)}))


def test_two_columns_are_enough(tmp_path: Path) -> None:
    trace = read_trace(save(tmp_path, {"arrival_s": [0.5, 1], "prompt_tokens": [3, 4], "other": ["x", "y"]}))
    assert list(trace) == [TraceRequest(500_000_000, prompt_tokens=3), TraceRequest(1_000_000_000, prompt_tokens=4)]
    assert trace.manifest == Manifest()
    assert trace.num_requests == 2


def test_other_types_of_the_same_values(tmp_path: Path) -> None:
    columns = {
        "arrival_s": pa.array([2], pa.uint8()),
        "prompt": pa.array(["hi"], pa.large_string()).dictionary_encode(),
        "prompt_tokens": pa.array([None], pa.null()),
        "output_tokens": pa.array([3.0], pa.float32()),
        "priority": pa.array([None], pa.int16()),
        "session_id": pa.array(["s"], pa.string_view()),
        "prefix_ids": pa.array([[1, 2]], pa.large_list(pa.uint32())),
        "prefix_block": pa.array([16], pa.uint64()),
        "tenant": pa.array([None], pa.string()),
    }
    assert list(read_trace(save(tmp_path, columns))) == [
        TraceRequest(2_000_000_000, "hi", None, 3, 0, "s", (1, 2), 16, None)
    ]


@pytest.mark.parametrize("frames", ["pandas", "polars"])
def test_data_frames_with_gaps(tmp_path: Path, frames: str) -> None:
    columns = {"arrival_s": [0.0, 1.0], "prompt_tokens": [5, 6], "output_tokens": [float("nan"), 7]}
    path = tmp_path / "t.parquet"
    if frames == "pandas":
        pd.DataFrame(columns).to_parquet(path)
    else:
        pl.DataFrame(columns).write_parquet(path)
    assert [request.output_tokens for request in read_trace(path)] == [None, 7]


def test_a_file_that_is_no_parquet(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    path.write_text("TIMESTAMP,ContextTokens\n")
    assert refusal(path).startswith("T isn't a Parquet file")
    assert refusal(path).endswith("`cbatch trace import` reads other formats")
    assert "doesn't exist: check the name" in refusal(tmp_path / "missing.parquet")
    assert refusal(tmp_path).endswith("can't be read: Is a directory")


def test_a_damaged_page_is_an_input_error(tmp_path: Path) -> None:
    path = save(tmp_path, {"arrival_s": [float(i) for i in range(500)], "prompt_tokens": [1] * 500})
    content = bytearray(path.read_bytes())
    content[4:400] = b"\xff" * 396
    path.write_bytes(content)
    assert refusal(path).startswith("T ")


def test_missing_columns(tmp_path: Path) -> None:
    assert refusal(save(tmp_path, {"time": [1], "prompt": ["x"]})) == (
        "T has no column arrival_s, only time, prompt: add it (seconds), or use `cbatch trace import` on the file"
    )
    assert refusal(save(tmp_path, {"arrival_s": [1.0]})) == (
        "T has neither a column prompt nor prompt_tokens, only arrival_s: add one of them"
    )


@pytest.mark.parametrize(
    ("name", "values", "message"),
    [
        ("arrival_s", pa.array([0], pa.timestamp("ms")), "arrival_s is of type timestamp[ms]: make it double"),
        ("prompt_tokens", ["5"], "prompt_tokens is of type string: make it int32"),
        ("prompt", [5], "prompt is of type int64: make it string"),
        ("prefix_ids", [["a"]], "prefix_ids is of type list<element: string>: make it list<element: int64>"),
        ("priority", [True], "priority is of type bool: make it int32"),
    ],
)
def test_columns_of_the_wrong_type(tmp_path: Path, name: str, values: Any, message: str) -> None:
    columns = {"arrival_s": [0.0], "prompt_tokens": [1]} | {name: values}
    assert refusal(save(tmp_path, columns)).replace("<item:", "<element:") == f"T: column {message}".replace(
        "<item:", "<element:"
    )


def test_a_column_twice(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    pq.write_table(pa.table([[0.0], ["x"], ["y"]], names=["arrival_s", "prompt", "prompt"]), path)
    assert refusal(path) == "T has 2 columns prompt: leave one"


@pytest.mark.parametrize(
    ("columns", "message"),
    [
        ({"arrival_s": None}, "arrival_s is null: give every request its seconds"),
        ({"arrival_s": float("nan")}, "arrival_s is nan: give every request its seconds"),
        ({"arrival_s": float("inf")}, "arrival_s is inf: give every request its seconds"),
        ({"arrival_s": 1e300}, "arrival_s is 1e+300: give every request its seconds"),
        ({"arrival_s": 1.7e12}, "arrival_s is 1700000000000.0, more than a century: give seconds, not milliseconds"),
        ({"arrival_s": -0.5}, "arrival_s is -0.5: give seconds since the trace's beginning, 0 or more"),
        ({"prompt_tokens": None}, "neither prompt nor prompt_tokens: give a text, or the length of a prompt"),
        ({"prompt": "hi"}, "both prompt and prompt_tokens (1): give one, null for the other"),
        ({"prompt": "", "prompt_tokens": None}, "prompt is empty: give some text, or prompt_tokens"),
        ({"prompt_tokens": 0}, "prompt_tokens is 0: give 1 to 2147483647"),
        ({"prompt_tokens": 2**31}, "prompt_tokens is 2147483648: give 1 to 2147483647"),
        ({"prompt_tokens": 1.5}, "prompt_tokens is 1.5: give a whole number"),
        ({"output_tokens": float("inf")}, "output_tokens is inf: give a whole number"),
        ({"output_tokens": 0}, "output_tokens is 0: give 1 to 2147483647, or null for an output that ends when"),
        ({"priority": 2**40}, "priority is 1099511627776: give -2147483647 to 2147483647"),
        ({"prefix_ids": [1]}, "prefix_ids without prefix_block: give the number of tokens in a block, such as 16"),
        ({"prefix_ids": [1], "prefix_block": 0}, "prefix_block is 0: give 1 to 2147483647"),
        ({"prefix_ids": [1, None], "prefix_block": 1}, "prefix_ids holds a null: leave it out"),
    ],
)
def test_rows_that_no_trace_has(tmp_path: Path, columns: dict[str, Any], message: str) -> None:
    assert row_refusal(tmp_path, **columns).startswith(f"T, row 2: {message}")


def test_arrivals_that_go_back(tmp_path: Path) -> None:
    path = save(tmp_path, {"arrival_s": [0.0, 2.0, 1.75], "prompt_tokens": [1, 1, 1]})
    assert refusal(path) == "T, row 3: arrival_s is 1.75, before the row above (2.0): sort the rows by arrival_s"


def test_ids_beyond_64_bits(tmp_path: Path) -> None:
    ids = pa.array([[2**63]], pa.list_(pa.uint64()))
    path = save(tmp_path, {"arrival_s": [0.0], "prompt_tokens": [1], "prefix_ids": ids, "prefix_block": [1]})
    assert refusal(path) == "T, row 1: prefix_ids holds 9223372036854775808: give ids that fit 64 bits, signed"


def test_reading_ends_where_the_reader_stops(tmp_path: Path) -> None:
    path = save(tmp_path, {"arrival_s": [0.0, -1.0], "prompt_tokens": [1, 1]})
    requests = iter(read_trace(path))
    assert next(requests).arrival_ns == 0
    requests.close()  # type: ignore[attr-defined]
    path.unlink()


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (b"{", "Expecting property name"),
        (b"[]", "no JSON object with version 1"),
        (b'{"version": 2}', "no JSON object with version 1"),
        (b'{"version": 1, "source": {}, "transforms": {}}', "transforms is {}, no JSON array"),
        (b'{"version": 1, "source": 5}', "source is 5, no JSON object"),
        (b'{"version": 1, "request_rate": "x"}', "request_rate is 'x', no number"),
    ],
)
def test_a_manifest_from_elsewhere(tmp_path: Path, text: bytes, reason: str) -> None:
    path = tmp_path / "t.parquet"
    table = pa.table({"arrival_s": [0.0], "prompt_tokens": [1]})
    pq.write_table(table.replace_schema_metadata({b"cbatch.trace": text}), path)
    message = refusal(path)
    assert message.startswith("T: its metadata 'cbatch.trace' is no manifest")
    assert reason in message
    assert message.endswith("make the trace again")
