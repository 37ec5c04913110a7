from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.outputs import parts
from cbatch.outputs.files import publish_all, temporary
from cbatch.outputs.parts import Parts

SCHEMA = pa.schema([("row", pa.int64())])


def test_parts_are_of_a_sensible_size(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PART_ROWS", 4)
    made = Parts(tmp_path, SCHEMA)
    for start in range(0, 10, 2):
        made.add(pa.table({"row": [start, start + 1]}))
    made.finish()
    publish_all(made.paths)
    assert [pq.read_table(path)["row"].to_pylist() for path in made.paths] == [[0, 1, 2, 3], [4, 5, 6, 7], [8, 9]]
    assert [path.name for path in made.paths] == [f"part-0000{i}.parquet" for i in range(3)]
    assert made.rows == 10


def test_nothing_makes_one_part_without_rows(tmp_path: Path) -> None:
    made = Parts(tmp_path, SCHEMA)
    made.finish()
    [path] = made.paths
    assert pq.read_metadata(temporary(path)).num_rows == 0


def test_the_open_part_may_be_dropped(tmp_path: Path) -> None:
    made = Parts(tmp_path, SCHEMA)
    made.add(pa.table({"row": [1]}))
    made.discard()
    assert list((tmp_path / "results").iterdir()) == []
