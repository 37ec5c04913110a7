"""Parquet and Arrow IPC, which share their cells."""

from __future__ import annotations

import io
import time
from datetime import date, datetime, timedelta, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest

from cbatch.errors import InputError
from cbatch.row_set import RowSet
from cbatch.types import Row, RowFault
from tests.inputs.reading import DEFAULTS, broken_off, good, open_rows, read, read_files

TYPES: dict[str, tuple[Any, list[Any]]] = {
    "null": (pa.null(), [None, None, None]),
    "bool": (pa.bool_(), [True, False, None]),
    "int8": (pa.int8(), [-1, 1, None]),
    "uint64": (pa.uint64(), [2**64 - 1, 0, None]),
    "float16": (pa.float16(), [0.5, 1.5, None]),
    "float32": (pa.float32(), [0.5, float("inf"), None]),
    "string": (pa.string(), ["a", "", None]),
    "large": (pa.large_string(), ["a", "", None]),
    "dictionary": (pa.dictionary(pa.int8(), pa.string()), ["a", "b", None]),
    "binary": (pa.binary(), [b"\xff", b"", None]),
    "date": (pa.date32(), [date(2024, 5, 1), date(1, 1, 1), None]),
    "time": (pa.timestamp("ns", "Europe/Rome"), [datetime(2024, 5, 1, tzinfo=timezone.utc), None, None]),
    "duration": (pa.duration("ms"), [timedelta(seconds=1), timedelta(0), None]),
    "decimal": (pa.decimal128(9, 2), [Decimal("1.50"), Decimal("-7.00"), None]),
    "list": (pa.list_(pa.int16()), [[1, None], [], None]),
    "struct": (pa.struct([("a", pa.int8()), ("b", pa.string())]), [{"a": 1, "b": None}, {"a": None, "b": "x"}, None]),
    "map": (pa.map_(pa.string(), pa.int32()), [[("a", 1)], [], None]),
}
PLAIN = {"null", "bool", "int8", "uint64", "float16", "float32", "string", "large", "dictionary"}
TABLE = pa.table(
    {"prompt": ["one", "two", "three"]} | {name: pa.array(values, kind) for name, (kind, values) in TYPES.items()}
)


def write(table: pa.Table, path: Path, **options: Any) -> Path:
    if path.suffix == ".parquet":
        pq.write_table(table, path, **options)
    elif path.suffix == ".feather":
        feather.write_feather(table, str(path), compression="zstd")
    else:
        opened = pa.ipc.new_file if path.suffix == ".arrow" else pa.ipc.new_stream
        with opened(str(path), table.schema) as writer:
            writer.write_table(table, **options)
    return path


FILES = ["a.parquet", "a.arrow", "a.ipc", "a.feather"]


@pytest.mark.parametrize("name", FILES)
def test_cells_keep_their_types(tmp_path: Path, name: str) -> None:
    rows = open_rows(write(TABLE, tmp_path / name))
    assert rows.num_rows == (None if name == "a.ipc" else 3)
    types = {key: pa.string() if key == "dictionary" else kind for key, (kind, _) in TYPES.items()}
    assert dict(rows.carried_types) == types
    found = good(list(rows))
    assert [row.content for row in found] == ["one", "two", "three"]
    assert [row.ref.where for row in found] == [f"{tmp_path / name}, row {n}" for n in (1, 2, 3)]
    for key, (_, values) in TYPES.items():
        cells = [row.ref.carried[key] for row in found]
        if key in PLAIN:
            assert cells == values
            assert {type(cell) for cell in cells} <= {type(None), bool, int, float, str}
        else:
            assert all(cell is None or isinstance(cell, pa.Scalar) for cell in cells)
            assert pa.array(cells, types[key]).equals(TABLE[key].combine_chunks())


@pytest.mark.parametrize("name", FILES)
def test_many_rows_in_groups_are_numbered_as_they_stand(tmp_path: Path, name: str) -> None:
    table = pa.table({"prompt": [f"p{n}" for n in range(1, 5001)], "tags": [[n] for n in range(1, 5001)]})
    options = {"row_group_size": 700} if name == "a.parquet" else {"max_chunksize": 700}
    path = write(table, tmp_path / name, **({} if name == "a.feather" else options))
    assert [row.content for row in good(read_files(path))] == table["prompt"].to_pylist()
    done = RowSet([*range(1, 2900), 2901])
    rows = good(list(open_rows(path, done=done)))
    assert [row.ref.number for row in rows] == [2900, *range(2902, 5001)]
    assert all(row.content == f"p{row.ref.number}" for row in rows)
    assert [row.ref.carried["tags"].as_py() for row in rows[:2]] == [[2900], [2902]]


def test_messages_and_parameters_may_be_nested(tmp_path: Path) -> None:
    chat = pa.list_(pa.struct([("role", pa.string()), ("content", pa.string()), ("name", pa.string())]))
    table = pa.table(
        {
            "messages": pa.array(
                [[{"role": "user", "content": "Hi"}], [{"role": "user", "content": None}], None], chat
            ),
            "prompt": [None, None, "Ho"],
            "stop": [["a", "b"], None, None],
            "max_tokens": pa.array([7, None, None], pa.int16()),
            "id": pa.array([1, 2, None], pa.float64()).cast(pa.int64()),
        }
    )
    first, second, third = read_files(write(table, tmp_path / "a.parquet"))
    assert isinstance(first, Row)
    assert first.content == ({"role": "user", "content": "Hi"},)
    assert (first.sampling.stop, first.sampling.max_tokens, first.ref.id) == (("a", "b"), 7, "1")
    assert isinstance(second, RowFault)
    assert second.message == "messages[0].content is null: give a string or a list of text parts"
    assert isinstance(third, Row)
    assert (third.content, third.ref.id, third.sampling) == ("Ho", "3", DEFAULTS)


def test_an_id_of_another_type_is_a_fault(tmp_path: Path) -> None:
    table = pa.table({"prompt": ["Hi"], "id": [date(2024, 5, 1)]})
    (item,) = read_files(write(table, tmp_path / "a.parquet"))
    assert isinstance(item, RowFault)
    assert item.message == "id is a value of type date32[day]: give a non-empty string or a whole number"


def test_text_that_isnt_utf8_is_a_fault_of_its_row(tmp_path: Path) -> None:
    bad = pa.array([b"good", b"\xff", b"fine"], pa.binary()).view(pa.string())
    items = read_files(write(pa.table({"prompt": bad}), tmp_path / "a.arrow"))
    assert [getattr(item, "code", None) for item in items] == [None, "invalid_utf8", None]


def test_files_of_a_directory_may_differ_in_width(tmp_path: Path) -> None:
    day = datetime(2024, 5, 1)  # noqa: DTZ001
    for name, kind, unit in (("a", pa.int32(), "s"), ("b", pa.int64(), "us"), ("c", pa.null(), "ms")):
        columns = {"prompt": ["Hi"], "n_": pa.array([None], kind), "t": pa.array([day], pa.timestamp(unit))}
        write(pa.table(columns), tmp_path / f"{name}.parquet")
    rows = open_rows(tmp_path)
    assert dict(rows.carried_types) == {"n_": pa.int64(), "t": pa.timestamp("us")}
    cells = [row.ref.carried["t"] for row in good(list(rows))]
    assert [cell.type for cell in cells] == [pa.timestamp("us")] * 3
    assert [cell.as_py() for cell in cells] == [day] * 3
    write(pa.table({"prompt": ["Hi"], "n_": ["x"]}), tmp_path / "d.parquet")
    with pytest.raises(InputError, match=r"'n_' is of type int64 in .*a\.parquet, and of type string in .*d\.par"):
        open_rows(tmp_path)


def test_a_stream_comes_from_a_pipe_and_a_file_cant() -> None:
    sink = io.BytesIO()
    with pa.ipc.new_stream(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    assert [row.content for row in good(read(sink.getvalue(), format="arrow"))] == ["one", "two", "three"]
    sink = io.BytesIO()
    with pa.ipc.new_file(sink, TABLE.schema) as writer:
        writer.write_table(TABLE)
    with pytest.raises(InputError, match="an Arrow file is read from its end: give the stream format, or a file"):
        read(sink.getvalue(), format="arrow")
    with pytest.raises(InputError, match="stdin: Parquet is read from its end, so it needs a file: save it as one"):
        read(b"PAR1", format="parquet")


@pytest.mark.parametrize("name", FILES)
def test_damage_is_said(tmp_path: Path, name: str) -> None:
    table = pa.table({"prompt": [f"{n}" * 100 for n in range(9000)]})
    path = write(table, tmp_path / name)
    data = path.read_bytes()
    path.write_bytes(data[: len(data) // 2])
    if name == "a.ipc":
        assert "a.ipc can't be read" in broken_off(open_rows(path))[1]
    else:
        with pytest.raises(InputError, match=rf"{name} can't be read: "):
            open_rows(path)
    path.write_bytes(b"")
    with pytest.raises(InputError, match=rf"{name} can't be read: "):
        open_rows(path)


@pytest.mark.parametrize("name", FILES[:2])
def test_two_columns_of_a_name_are_refused(tmp_path: Path, name: str) -> None:
    table = pa.Table.from_arrays([pa.array(["a"]), pa.array(["b"])], names=["prompt", "prompt"])
    with pytest.raises(InputError, match="has two columns named 'prompt': rename one"):
        open_rows(write(table, tmp_path / name))


def test_a_large_row_group_gives_its_first_row_at_once(tmp_path: Path) -> None:
    text = pa.array(["x" * 1000 + str(n) for n in range(50_000)])
    path = tmp_path / "large.parquet"
    pq.write_table(pa.table({"prompt": text}), path, row_group_size=50_000, use_dictionary=False, compression=None)
    before = pa.total_allocated_bytes()
    begin = time.perf_counter()
    rows = open_rows(path)
    assert next(rows).ref.number == 1
    assert time.perf_counter() - begin < 1
    assert pa.total_allocated_bytes() - before < path.stat().st_size / 4
