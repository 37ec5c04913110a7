from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.errors import OutputError
from cbatch.outputs.history import Held, held, last_ns, remove_held, write_history
from cbatch.outputs.journal.layout import Layout

SCHEMA = pa.schema([pa.field("step", pa.int64(), nullable=False), pa.field("end_ns", pa.int64(), nullable=False)])


def piece(layout: Layout, number: int, *steps: int) -> None:
    layout.journal.mkdir(exist_ok=True)
    table = pa.table({"step": list(steps), "end_ns": [step * 10 for step in steps]}, schema=SCHEMA)
    pq.write_table(table, layout.piece("steps", number))


def read(layout: Layout) -> list[int]:
    found: list[int] = pq.read_table(layout.table("steps"))["step"].to_pylist()
    return found


def test_pieces_follow_what_earlier_sessions_left(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    piece(layout, 2, 3)
    piece(layout, 0, 1, 2)
    write_history(layout, "steps", SCHEMA, None)
    assert read(layout) == [1, 2, 3]
    assert held(layout, "steps") == Held(2, None)
    piece(layout, 5, 4)
    write_history(layout, "steps", SCHEMA, 7)
    assert read(layout) == [1, 2, 3, 4]
    assert held(layout, "steps") == Held(5, 7)
    assert layout.pieces("steps") == []


def test_without_pieces_there_is_an_empty_table(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    write_history(layout, "steps", SCHEMA, None)
    assert read(layout) == []
    assert pq.read_schema(layout.table("steps")).names == SCHEMA.names


def test_a_table_that_says_all_already_stays(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    write_history(layout, "steps", SCHEMA, 3)
    before = layout.table("steps").stat().st_ino
    write_history(layout, "steps", SCHEMA, 3)
    assert layout.table("steps").stat().st_ino == before


def test_pieces_that_the_table_holds_go(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    piece(layout, 1, 1)
    write_history(layout, "steps", SCHEMA, None)
    piece(layout, 1, 1)
    piece(layout, 2, 2)
    remove_held(layout, "steps")
    assert [path.name for path in layout.pieces("steps")] == ["steps-00002.parquet"]


def test_the_last_time_is_found_without_reading_rows(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    assert last_ns(layout, "steps", "end_ns") == 0
    piece(layout, 1, 5, 2)
    write_history(layout, "steps", SCHEMA, None)
    assert last_ns(layout, "steps", "end_ns") == 50
    piece(layout, 2, 7)
    assert last_ns(layout, "steps", "end_ns") == 70


def test_a_table_of_somebody_else_counts_as_one_that_holds_no_piece(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    pq.write_table(pa.table({"step": [1], "end_ns": [10]}, schema=SCHEMA), layout.table("steps"))
    assert held(layout, "steps") == Held()


def test_a_damaged_table_is_an_output_error(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    layout.table("steps").write_bytes(b"PAR1")
    with pytest.raises(OutputError, match=r"steps\.parquet can't be read: .*--force"):
        held(layout, "steps")
