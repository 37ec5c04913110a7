from __future__ import annotations

from typing import Any

import pytest

from cbatch.types import RowKind
from tests.inputs.reading import fault, row


def test_the_kinds_of_row() -> None:
    messages = [{"role": "user", "content": "Hi"}]
    assert (row("Hi").kind, row("Hi").content) == (RowKind.PROMPT, "Hi")
    assert (row({"prompt": "Hi"}).kind, row({"prompt": "Hi"}).content) == (RowKind.PROMPT, "Hi")
    assert (row({"messages": messages}).kind, row({"messages": messages}).content) == (RowKind.CHAT, tuple(messages))


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, "1"),
        ({"id": "a"}, "a"),
        ({"id": 0}, "0"),
        ({"id": 10**30}, str(10**30)),
        ({"custom_id": "c"}, "c"),
        ({"id": None}, "1"),
        ({"custom_id": None, "id": "a"}, "a"),
    ],
)
def test_the_id_is_the_rows_own_or_its_number(fields: dict[str, Any], expected: str) -> None:
    found = row({"prompt": "Hi", **fields})
    assert found.ref.id == expected
    assert found.ref.carried == {}


def test_custom_id_goes_before_id_which_is_then_data() -> None:
    found = row({"prompt": "Hi", "custom_id": "c", "id": 7})
    assert (found.ref.id, found.ref.carried) == ("c", {"id": 7})


@pytest.mark.parametrize("value", ["", True, 1.5, ["a"], {"a": 1}])
def test_an_id_of_another_type_is_a_fault(value: Any) -> None:
    found = fault({"prompt": "Hi", "id": value})
    assert (found.code, found.ref.id) == ("invalid_id", "1")


def test_unknown_fields_are_carried_as_they_are() -> None:
    data = {"category": "x", "meta": {"a": [1, None, 2.5]}, "model": "m", "stream": True, "big": 10**300}
    assert row({"prompt": "Hi", "max_tokens": 5, "n": 1, "priority": 1, **data}).ref.carried == data


def test_a_fault_carries_too() -> None:
    assert fault({"prompt": "", "category": "x"}).ref.carried == {"category": "x"}


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (5, "wrong_type", "the row is 5: give one JSON string or object a line"),
        (None, "wrong_type", "the row is null"),
        (True, "wrong_type", "the row is true"),
        (["a"], "wrong_type", "the row is a list"),
        ("", "empty_prompt", "the prompt is empty"),
        ({"prompt": ""}, "empty_prompt", "the prompt is empty"),
        ({"prompt": 5}, "wrong_type", "prompt is 5: give one string"),
        ({"prompt": "x" * 500 + "y", "messages": [{}]}, "ambiguous_prompt", "both prompt and messages"),
        ({}, "missing_prompt", "found no fields, but no prompt or messages"),
        ({"prompt": None}, "missing_prompt", "found 'prompt', but no prompt or messages"),
        ({"text": "Hi", "lang": "en"}, "missing_prompt", "found 'text', 'lang', but no prompt or messages"),
        ({"body": "Hi"}, "missing_prompt", "found 'body'"),
    ],
)
def test_a_row_without_a_usable_prompt_is_a_fault(value: Any, code: str, message: str) -> None:
    found = fault(value)
    assert found.code == code
    assert message in found.message


def test_null_is_no_prompt_and_no_messages() -> None:
    assert row({"prompt": "Hi", "messages": None}).kind is RowKind.PROMPT
    assert row({"prompt": None, "messages": [{"role": "user", "content": "Hi"}]}).kind is RowKind.CHAT


def test_space_is_a_prompt() -> None:
    assert row({"prompt": "\n"}).content == "\n"
