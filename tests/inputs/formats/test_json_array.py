from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.inputs import lines
from cbatch.inputs.formats import json_array
from cbatch.inputs.formats.json_array import _Splitter
from cbatch.inputs.streams import ByteStream
from tests.inputs.reading import broken_off, good, open_rows, read, read_files
from tests.inputs.test_lines import Trickle
from tests.inputs.test_reader import JSON


def array(data: bytes) -> list[Any]:
    return [(item.ref.where, getattr(item, "code", None)) for item in read(data, format="json")]


@given(st.lists(JSON), st.integers(1, 9), st.sampled_from([None, 2]), st.booleans())
def test_items_are_whole_however_they_arrive(
    values: list[Any], size: int, indent: int | None, ascii_only: bool
) -> None:
    data = json.dumps(values, indent=indent, ensure_ascii=ascii_only).encode("utf-8", "surrogatepass")
    blocks = _Splitter("x").split(ByteStream(Trickle(data, size)))
    found = [raw for block in blocks for raw in block]
    assert json.dumps([json.loads(raw) for raw in found]) == json.dumps(values)


def test_an_array_gives_a_row_for_each_item(tmp_path: Path) -> None:
    path = tmp_path / "a.json"
    path.write_text('\n [ "a, ]\\"[", {"prompt": "b", "x": {"y": [1, "}"]}, "id": 18446744073709551616} ,\n"c" ] \n')
    rows = good(read_files(path))
    assert [(row.ref.number, row.ref.where) for row in rows] == [(n, f"{path}, item {n}") for n in (1, 2, 3)]
    assert [row.content for row in rows] == ['a, ]"[', "b", "c"]
    assert (rows[1].ref.id, rows[1].ref.carried) == ("18446744073709551616", {"x": {"y": [1, "}"]}})


def test_a_file_that_isnt_an_array_is_jsonl(tmp_path: Path) -> None:
    (tmp_path / "a.json").write_bytes(b'\xef\xbb\xbf\n{"prompt": "a"}\n{"prompt": "b"}\n')
    assert [row.ref.where[-2:] for row in good(read_files(tmp_path / "a.json"))] == [":2", ":3"]
    assert array(b"") == array(b" \n") == array(b"[]") == array(b" [ ] ") == []


def test_a_bad_item_costs_no_other() -> None:
    assert array(b'["a", {bad}, "\xff", 1e999, , "b",]') == [
        ("stdin, item 1", None),
        ("stdin, item 2", "invalid_json"),
        ("stdin, item 3", "invalid_utf8"),
        ("stdin, item 4", "invalid_json"),
        ("stdin, item 5", "invalid_json"),
        ("stdin, item 6", None),
    ]


@pytest.mark.parametrize(
    ("data", "items", "message"),
    [
        (
            b'["a", "b", "c',
            2,
            "can't be read past item 2: the array doesn't end, so it may be cut off; complete the file",
        ),
        (b'["a", {"b": [1, 2}', 1, "can't be read past item 1"),
        (b"[" * 300_000, 0, "can't be read past item 0"),
        (b'["a", "b"] "c"', 2, "goes on behind its array, after item 2: give one array"),
        (b'["a"]\n["b"]', 1, "goes on behind its array"),
    ],
)
def test_items_before_damage_stay_good(tmp_path: Path, data: bytes, items: int, message: str) -> None:
    (tmp_path / "a.json").write_bytes(data)
    found, said = broken_off(open_rows(tmp_path / "a.json"))
    assert len(good(found)) == items
    assert message in said


def test_an_item_that_is_too_long_is_a_fault(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 100)
    monkeypatch.setattr(json_array, "MAX_LINE", 100)
    for size in (7, 1000):
        splitter = _Splitter("x")
        blocks = splitter.split(ByteStream(Trickle(b'["a", "' + b"x" * 500 + b'", "b"]', size)))
        first, second, third = [raw for block in blocks for raw in block]
        assert (first, third, len(second) > 100) == (b'"a"', b'"b"', True)
