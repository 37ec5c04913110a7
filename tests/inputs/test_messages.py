from __future__ import annotations

from typing import Any

import pytest

from cbatch.inputs.fault import Fault
from cbatch.inputs.messages import messages_of


def user(content: Any) -> dict[str, Any]:
    return {"role": "user", "content": content}


def test_messages_keep_their_order_and_their_other_keys() -> None:
    messages = [
        {"role": "system", "content": "Be brief."},
        {"role": "user", "content": "Hi", "name": "Ada"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "1"}]},
        {"role": "tool", "content": "7", "tool_call_id": "1"},
    ]
    assert messages_of(messages) == tuple(messages)


def test_text_parts_are_joined_by_a_line_break() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    assert messages_of([user(parts)]) == (user("a\nb"),)


@pytest.mark.parametrize(
    ("messages", "code", "message"),
    [
        ("Hi", "wrong_type", "messages is 'Hi': give a list"),
        ({}, "wrong_type", "messages is an object"),
        ([], "empty_prompt", "messages is empty"),
        ([user(""), user([])], "empty_prompt", "every message has empty content"),
        (["Hi"], "wrong_type", r"messages\[0\] is 'Hi': give an object"),
        ([user("Hi"), {"role": "robot", "content": "Hi"}], "wrong_type", r"messages\[1\] has role 'robot'"),
        ([{"content": "Hi"}], "wrong_type", "has role null: give one of system, developer, user"),
        ([{"role": ["user"], "content": "Hi"}], "wrong_type", "has role a list"),
        ([{"role": "user"}], "wrong_type", r"messages\[0\]\.content is null: give a string"),
        ([{"role": "assistant", "content": None}], "wrong_type", "content is null"),
        ([user(["Hi"])], "wrong_type", r"messages\[0\]\.content\[0\] is 'Hi'"),
        ([user([{"type": "text"}])], "wrong_type", r"content\[0\]\.text is null"),
        ([user([{"type": "image_url", "image_url": {}}])], "unsupported_content", "has type 'image_url'"),
        ([user([{"type": "input_audio"}])], "unsupported_content", "only text"),
        ([user([{}])], "unsupported_content", "has type null"),
    ],
)
def test_bad_messages_are_faults_that_name_the_message(messages: Any, code: str, message: str) -> None:
    with pytest.raises(Fault, match=message) as caught:
        messages_of(messages)
    assert caught.value.code == code
