"""Which fields mean what, and what is said of columns that don't fit."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.errors import InputError
from cbatch.types import RowKind
from tests.inputs.reading import fault, good, open_rows, read, read_files, row

CHAT = [{"role": "user", "content": "Hi"}]


def test_the_prompt_may_be_in_another_field() -> None:
    found = row({"text": "Hi", "prompt": "data", "messages": 5, "body": 1, "url": 2}, prompt_column="text")
    assert (found.content, found.ref.carried) == ("Hi", {"prompt": "data", "messages": 5, "body": 1, "url": 2})
    missing = fault({"prompt": "Hi"}, prompt_column="text")
    assert (missing.code, missing.message) == ("missing_prompt", "found 'prompt', but no text: add it")


def test_messages_may_be_in_another_field() -> None:
    found = row({"chat": CHAT, "messages": "data"}, messages_column="chat")
    assert (found.kind, found.content, found.ref.carried) == (RowKind.CHAT, tuple(CHAT), {"messages": "data"})
    assert fault({"prompt": "Hi"}, messages_column="chat").message == "found 'prompt', but no chat: add it"
    both = {"prompt_column": "text", "messages_column": "chat"}
    assert row({"text": "Hi", "chat": None}, **both).content == "Hi"
    assert row({"text": None, "chat": CHAT}, **both).kind is RowKind.CHAT
    assert fault({"text": "Hi", "chat": CHAT}, **both).message == "both text and chat are given: keep one"
    assert "no text or chat" in fault({}, **both).message


def test_the_id_may_be_in_another_field() -> None:
    found = row({"prompt": "Hi", "key": 7, "id": "data"}, id_column="key")
    assert (found.ref.id, found.ref.carried) == ("7", {"id": "data"})
    assert row({"prompt": "Hi", "key": None}, id_column="key").ref.id == "1"
    missing = fault({"prompt": "Hi", "id": "x"}, id_column="key")
    assert (missing.code, missing.message) == ("missing_id", "the row has no field 'key': add it, or give it as null")
    assert fault("Hi", id_column="key").code == "missing_id"
    assert fault({"prompt": "Hi", "key": 1.5}, id_column="key").code == "invalid_id"
    assert [item.code for item in read(b"{bad\n", id_column="key") if hasattr(item, "code")] == ["invalid_json"]


def test_a_field_that_was_named_is_no_parameter() -> None:
    found = row({"stop": "Hi", "seed": 5, "n": 1}, prompt_column="stop", id_column="seed")
    assert (found.content, found.ref.id, found.sampling.stop, found.sampling.seed) == ("Hi", "5", ("END",), 9)


@pytest.fixture
def table(tmp_path: Path) -> Path:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"text": ["Hi", "Ho"], "n_": [1, 2], "key": ["a", "b"]}), path)
    return path


def test_columns_can_be_named(table: Path) -> None:
    rows = open_rows(table, prompt_column="text", id_column="key")
    assert dict(rows.carried_types) == {"n_": pa.int64()}
    assert [(item.ref.id, item.content) for item in good(list(rows))] == [("a", "Hi"), ("b", "Ho")]
    rows = open_rows(table, template="{{ n_ }}: {{ text }}")
    assert list(rows.carried_types) == ["text", "n_", "key"]
    assert [item.content for item in good(list(rows))] == ["1: Hi", "2: Ho"]


@pytest.mark.parametrize(
    ("options", "message"),
    [
        (
            {},
            "has no column prompt or messages, only 'text', 'n_', 'key': name the one .* by --prompt-column",
        ),
        ({"prompt_column": "prompt"}, "has no column 'prompt', only 'text', 'n_', 'key': correct --prompt-column"),
        ({"prompt_column": "text", "id_column": "id"}, "has no column 'id', only .*: correct --id-column"),
        ({"messages_column": "chat"}, "has no column 'chat', only .*: correct --messages-column"),
        (
            {"prompt_column": "n_"},
            r"in column 'n_' are of type int64: give a column of strings, or --template {{ n_ }}",
        ),
    ],
)
def test_what_is_missing_is_said_at_once(table: Path, options: dict[str, Any], message: str) -> None:
    with pytest.raises(InputError, match=message):
        open_rows(table, **options)


def test_other_sources_may_stand_beside_columns(table: Path, tmp_path: Path) -> None:
    (tmp_path / "rows.jsonl").write_text('{"text": "He", "n_": "x"}\n')
    rows = good(read_files(table, tmp_path / "rows.jsonl", prompt_column="text"))
    assert [(item.ref.number, item.content, item.ref.carried["n_"]) for item in rows] == [
        (1, "Hi", 1),
        (2, "Ho", 2),
        (3, "He", "x"),
    ]
