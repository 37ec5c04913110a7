from __future__ import annotations

import errno
import subprocess
import sys
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.outputs.files import WriteError
from cbatch.outputs.parquet import ParquetTable

FIELDS: list[pa.Field[Any]] = [pa.field("n", pa.int64(), nullable=False), pa.field("s", pa.string())]
SCHEMA = pa.schema(FIELDS)


def make_table(directory: Path) -> ParquetTable:
    return ParquetTable(directory / "t.parquet", SCHEMA, group_rows=3)


def groups(path: Path) -> list[int]:
    metadata = pq.ParquetFile(path).metadata
    return [metadata.row_group(i).num_rows for i in range(metadata.num_row_groups)]


def test_row_groups_close_by_count(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    for n in range(7):
        table.add({"n": n})
    table.close()
    assert groups(tmp_path / "t.parquet") == [3, 3, 1]
    assert pq.read_table(tmp_path / "t.parquet")["n"].to_pylist() == list(range(7))


def test_the_final_name_appears_at_the_end(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.add({"n": 1, "s": "x"})
    assert [p.name for p in tmp_path.iterdir()] == [".t.parquet.tmp"]
    table.close()
    table.close()
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]
    assert pq.ParquetFile(tmp_path / "t.parquet").metadata.row_group(0).column(0).compression == "ZSTD"


def test_no_rows_make_a_file_with_columns(tmp_path: Path) -> None:
    make_table(tmp_path).close()
    assert pq.read_schema(tmp_path / "t.parquet").equals(SCHEMA)
    assert groups(tmp_path / "t.parquet") == []


def test_a_required_column_refuses_null(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.add({"s": "x"})
    with pytest.raises(pa.ArrowInvalid, match="non-nullable"):
        table.close()
    table.discard()


def test_a_closed_table_takes_no_rows(tmp_path: Path) -> None:
    table = make_table(tmp_path)
    table.close()
    with pytest.raises(WriteError, match="is closed"):
        table.add({"n": 1})


def test_a_full_disk_leaves_no_file_that_can_not_be_read(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    table = make_table(tmp_path)
    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    table.add({"n": 1})
    table.add({"n": 2})
    with pytest.raises(WriteError, match=r"t\.parquet can't be written: No space left on device"):
        table.add({"n": 3})
    with pytest.raises(WriteError, match="is closed"):
        table.add({"n": 1})
    table.close()
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
    table = make_table(tmp_path)
    for n in range(4):
        table.add({"n": n})
    table.discard()
    assert list(tmp_path.iterdir()) == []
    done = make_table(tmp_path)
    done.close()
    done.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["t.parquet"]


# A limit on the size of files refuses as a full disk does, byte for byte: in the first bytes, amid a row group, and in
# the footer.
_LIMITED = """
import resource, sys
from pathlib import Path
from cbatch.outputs.files import WriteError
from tests.outputs.test_parquet import make_table

folder, limit = Path(sys.argv[1]), int(sys.argv[2])
resource.setrlimit(resource.RLIMIT_FSIZE, (limit, limit))
try:
    table = make_table(folder)
    for n in range(9):
        table.add({"n": n, "s": str(n) * 100})
    table.close()
except WriteError as error:
    print(error)
"""


@pytest.mark.parametrize("limit", [2, 200, 900])
def test_a_real_refusal_at_any_byte(tmp_path: Path, limit: int) -> None:
    command = [sys.executable, "-c", _LIMITED, str(tmp_path), str(limit)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    assert "t.parquet can't be written: File too large" in done.stdout
    assert done.stderr == ""
    assert list(tmp_path.iterdir()) == []
