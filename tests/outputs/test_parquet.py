from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.outputs import parquet
from cbatch.outputs.files import WriteError, publish
from cbatch.outputs.parquet import ParquetTable, conform

FIELDS: list[pa.Field[Any]] = [pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string())]
SCHEMA = pa.schema(FIELDS)


def rows(*numbers: int, text: str | None = None) -> pa.Table:
    return pa.table({"n": list(numbers), "s": pa.array([text] * len(numbers), pa.string())}, schema=SCHEMA)


def make_table(directory: Path) -> ParquetTable:
    return ParquetTable(directory / "t.parquet", SCHEMA)


def groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_row_groups_close_by_count(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_ROWS", 3)
    table = make_table(tmp_path)
    table.add(rows(0, 1))
    table.add(rows(2))
    table.add(rows(3, 4, 5, 6))
    table.finish()
    publish(table.path)
    assert groups(table.path) == [3, 3, 1]
    assert pq.read_table(table.path)["n"].to_pylist() == list(range(7))
    assert table.rows == 7


def test_row_groups_close_by_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parquet, "GROUP_BYTES", 5_000)
    table = make_table(tmp_path)
    table.add(rows(*range(10), text="x" * 1_000))
    table.add(rows(10, 11))
    table.finish()
    publish(table.path)
    assert groups(table.path) == [8, 4]  # with less than twice the size
    assert pq.read_table(table.path)["n"].to_pylist() == list(range(12))


def test_the_file_has_a_temporary_name(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.add(rows(1))
    table.finish()
    table.finish()
    assert [p.name for p in tmp_path.iterdir()] == [".t.parquet.tmp"]
    publish(table.path)
    assert pq.ParquetFile(table.path).metadata.row_group(0).column(0).compression == "ZSTD"


def test_no_rows_make_a_file_with_columns(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.finish()
    publish(table.path)
    assert pq.read_schema(table.path).equals(SCHEMA)
    assert groups(table.path) == []


def test_a_table_takes_the_schema_s_columns() -> None:
    other = pa.table({"s": ["a"], "more": [1], "n": pa.array([1], pa.int32())})
    assert conform(other, SCHEMA).equals(rows(1, text="a"))
    assert conform(pa.table({"n": [1]}), SCHEMA).equals(rows(1))


def test_a_finished_table_takes_no_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.finish()
    with pytest.raises(WriteError, match="is closed"):
        table.add(rows(1))


def test_a_full_disk_leaves_no_file_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(parquet, "GROUP_ROWS", 3)
    table = make_table(tmp_path)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    table.add(rows(1, 2))
    with pytest.raises(WriteError, match=r"t\.parquet can't be written: No space left on device"):
        table.add(rows(3))
    with pytest.raises(WriteError, match="is closed"):
        table.add(rows(1))
    table.finish()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_can_not_be_begun_leaves_nothing(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any, **__: Any) -> None:
        assert len(list(tmp_path.iterdir())) == 1
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(pq, "ParquetWriter", refuse)
    with pytest.raises(WriteError, match="No space left on device"):
        make_table(tmp_path)
    assert list(tmp_path.iterdir()) == []


def test_what_is_discarded_goes_unless_it_is_complete(tmp_path: Path) -> None:
    with make_table(tmp_path) as table:
        table.add(rows(1))
    assert list(tmp_path.iterdir()) == []
    with make_table(tmp_path) as done:
        done.finish()
    assert [p.name for p in tmp_path.iterdir()] == [".t.parquet.tmp"]


# A limit on the size of files refuses as a full disk does, byte for byte: in the first bytes, amid a row group, and in
# the footer.
_LIMITED = """
import resource, sys
from pathlib import Path
from cbatch.outputs.files import WriteError
from tests.outputs.test_parquet import make_table, rows

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    table = make_table(folder)
    table.add(rows(*range(9), text="x" * 100))
    table.finish()
except WriteError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [2, 100, 500])
def test_a_real_refusal_at_any_byte(tmp_path: Path, limit: int) -> None:
    command = [sys.executable, "-c", _LIMITED, str(tmp_path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "t.parquet can't be written: File too large" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
