from __future__ import annotations

import gzip
from pathlib import Path

from cbatch.types import RowFault
from tests.inputs.reading import good, open_rows, read, read_files


def test_each_line_of_a_file_is_a_prompt(tmp_path: Path) -> None:
    path = tmp_path / "a.txt"
    path.write_bytes('\ufeff{"a": 1}\r\n\n  "b" \nça va'.encode())
    assert [(row.ref.id, row.content) for row in good(read_files(path))] == [
        ("1", '{"a": 1}'),
        ("2", '  "b" '),
        ("3", "ça va"),
    ]
    assert [row.content for row in good(read(b"Hi\n5\n", format="text"))] == ["Hi", "5"]


def test_each_file_of_a_directory_is_a_prompt(tmp_path: Path) -> None:
    (tmp_path / "x").mkdir()
    (tmp_path / "a.txt").write_bytes(b"one\n\ntwo\n")
    (tmp_path / "b.md").write_bytes(b"\xff")
    (tmp_path / "c.txt").write_bytes(b"")
    (tmp_path / "x" / "d.txt.gz").write_bytes(gzip.compress(b"packed"))
    rows = open_rows(tmp_path)
    assert rows.num_rows == 4
    a, b, c, d = rows
    assert [item.ref.id for item in (a, c, d)] == ["a.txt", "c.txt", "x/d.txt.gz"]
    assert [row.content for row in good([a, d])] == ["one\n\ntwo\n", "packed"]
    assert a.ref.where == f"{tmp_path}/a.txt"
    assert isinstance(b, RowFault)
    assert isinstance(c, RowFault)
    assert (b.message, c.code) == (
        "byte 0xff at offset 0 of the file isn't valid UTF-8: save the file as UTF-8",
        "empty_prompt",
    )
