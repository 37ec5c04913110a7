from __future__ import annotations

import errno
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.clock import VirtualClock
from cbatch.outputs.files import WriteError
from cbatch.outputs.parquet import GROUP_NS, GROUP_ROWS, ParquetTable

FIELDS: list[pa.Field[Any]] = [pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string())]
SCHEMA = pa.schema(FIELDS)


def groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_row_groups_close_by_count(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t.parquet", SCHEMA, VirtualClock())
    for n in range(2 * GROUP_ROWS + 1):
        table.add({"n": n})
    table.close()
    assert groups(tmp_path / "t.parquet") == [GROUP_ROWS, GROUP_ROWS, 1]
    assert pq.read_table(tmp_path / "t.parquet")["n"].to_pylist() == list(range(2 * GROUP_ROWS + 1))


def test_row_groups_close_by_time(tmp_path: Path) -> None:
    clock = VirtualClock()
    table = ParquetTable(tmp_path / "t.parquet", SCHEMA, clock)
    for wait in (0, GROUP_NS - 1, 1, 0, GROUP_NS):
        clock.advance(wait)
        table.add({"n": 0})
    table.close()
    assert groups(tmp_path / "t.parquet") == [3, 2]


def test_the_final_name_appears_at_the_end(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t.parquet", SCHEMA, VirtualClock())
    table.add({"n": 1, "s": "x"})
    assert [p.name for p in tmp_path.iterdir()] == [".t.parquet.tmp"]
    table.close()
    table.close()
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_no_rows_make_a_file_with_columns(tmp_path: Path) -> None:
    ParquetTable(tmp_path / "t.parquet", SCHEMA, VirtualClock()).close()
    assert pq.read_schema(tmp_path / "t.parquet").equals(SCHEMA)
    assert groups(tmp_path / "t.parquet") == []


def test_a_required_column_refuses_null(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t.parquet", SCHEMA, VirtualClock())
    table.add({"s": "x"})
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        table.close()


def test_a_closed_table_takes_no_rows(tmp_path: Path) -> None:
    table = ParquetTable(tmp_path / "t.parquet", SCHEMA, VirtualClock())
    table.close()
    with pytest.raises(WriteError, match="is closed"):
        table.add({"n": 1})


def test_a_full_disk_leaves_no_file_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    table = ParquetTable(tmp_path / "t.parquet", SCHEMA, VirtualClock())
    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    for n in range(GROUP_ROWS - 1):
        table.add({"n": n})
    with pytest.raises(WriteError, match=r"t\.parquet can't be written: No space left on device"):
        table.add({"n": GROUP_ROWS})
    with pytest.raises(WriteError, match="is closed"):
        table.add({"n": 1})
    table.close()
    assert list(tmp_path.iterdir()) == []
