from __future__ import annotations

import csv
import math
from datetime import date, datetime
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pytest

from cbatch.outputs import WriteError
from cbatch.outputs.csv_file import CsvFile
from cbatch.outputs.files import publish

TABLE = pa.table(
    {
        "n": [1, None],
        "share": [0.1, math.nan],
        "gold": [True, None],
        "text": ['say "hi",\nplease', None],
        "empty": ["", "é"],
        "price": pa.array([Decimal("1.50"), None], pa.decimal128(5, 2)),
        "day": [date(2025, 1, 31), None],
        "at": pa.array([datetime(2025, 1, 31, 12), None], pa.timestamp("us")),  # noqa: DTZ001
        "raw": [b"a\xff", None],
        "tags": [["x", "y"], None],
        "nested": [{"a": [1]}, None],
    }
)


def write(path: Path, *tables: pa.Table) -> None:
    file = CsvFile(path, TABLE.schema)
    for table in tables:
        file.add(table)
    file.finish()
    publish(path)


def test_columns_are_text(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, TABLE.slice(0, 1), TABLE.slice(1))
    with path.open(encoding="utf-8", newline="") as file:
        header, first, second = csv.reader(file)
    assert header == TABLE.column_names
    assert first == [
        "1",
        "0.1",
        "true",
        'say "hi",\nplease',
        "",
        "1.50",
        "2025-01-31",
        "2025-01-31T12:00:00",
        "a\\xff",
        '["x", "y"]',
        '{"a": [1]}',
    ]
    assert second == ["", "nan", "", "", "é", *[""] * 6]


def test_null_is_nothing_and_an_empty_text_is_quoted(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    write(path, TABLE.select(["text", "empty"]).slice(1), TABLE.select(["empty"]).slice(0, 1))
    assert path.read_text("utf-8").splitlines()[1:] == [',"é"', '""']


def test_no_rows_leave_a_header(tmp_path: Path) -> None:
    write(tmp_path / "a.csv")
    assert (tmp_path / "a.csv").read_text().count("\n") == 1


def test_what_is_discarded_goes(tmp_path: Path) -> None:
    CsvFile(tmp_path / "a.csv", TABLE.schema).discard()
    assert list(tmp_path.iterdir()) == []


def test_a_folder_that_is_missing(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"a\.csv can't be written: No such file"):
        CsvFile(tmp_path / "none" / "a.csv", TABLE.schema)
