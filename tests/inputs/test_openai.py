from __future__ import annotations

from typing import Any

import pytest

from cbatch.types import RowKind
from tests.inputs.reading import DEFAULTS, fault, row

MESSAGES = [{"role": "user", "content": "Hi"}]


def line(body: Any, url: Any = "/v1/chat/completions", **fields: Any) -> dict[str, Any]:
    return {"custom_id": "request-1", "method": "POST", "url": url, "body": body, **fields}


def test_a_chat_line() -> None:
    found = row(line({"model": "m", "messages": MESSAGES, "max_completion_tokens": 7, "priority": 2}, category="x"))
    assert (found.kind, found.content, found.priority) == (RowKind.CHAT, tuple(MESSAGES), 2)
    assert found.sampling.max_tokens == 7
    assert found.ref.id == "request-1"
    assert found.ref.carried == {"category": "x"}


def test_a_completion_line_is_raw() -> None:
    found = row(line({"model": "m", "prompt": "Once", "seed": 0}, "/v1/completions"))
    assert (found.kind, found.content, found.sampling.seed) == (RowKind.COMPLETION, "Once", 0)


def test_what_cant_change_the_answer_is_dropped() -> None:
    body = {"messages": MESSAGES, "model": "m", "user": "u", "metadata": {"a": "b"}, "stream": True, "store": True}
    found = row(line(body))
    assert found.sampling is DEFAULTS
    assert found.ref.carried == {}


@pytest.mark.parametrize(
    ("value", "code", "message"),
    [
        (line({"messages": MESSAGES}, method="GET"), "unsupported_method", "method is 'GET': give 'POST'"),
        (line({"messages": MESSAGES}, method=None), "unsupported_method", "method is null"),
        (line({"input": "Hi"}, "/v1/embeddings"), "unsupported_url", "url is '/v1/embeddings': give /v1/chat"),
        (line({"messages": MESSAGES}, None), "unsupported_url", "url is null"),
        (line({"messages": MESSAGES}, []), "unsupported_url", "url is a list"),
        (line("Hi"), "wrong_type", "body is 'Hi': give the request as an object"),
        (line({"messages": MESSAGES, "temprature": 0}), "unsupported_parameter", "body has 'temprature', which"),
        (line({"messages": MESSAGES, "suffix": "x"}), "unsupported_parameter", "suffix is 'x'"),
        (line({"messages": MESSAGES, "temperature": 101}), "invalid_parameter", "temperature is 101"),
        (line({"model": "m"}), "missing_prompt", "found 'model', but no messages"),
        (line({"prompt": "Hi"}), "missing_prompt", "found 'prompt', but no messages"),
        (line({"messages": MESSAGES}, "/v1/completions"), "missing_prompt", "found 'messages', but no prompt"),
        (line({"messages": MESSAGES, "prompt": "Hi"}), "ambiguous_prompt", "keep one"),
        (line({"prompt": ["Hi"]}, "/v1/completions"), "wrong_type", "prompt is a list: give one string"),
        (line({"prompt": [1, 2]}, "/v1/completions"), "wrong_type", "prompt is a list"),
        (line({"prompt": ""}, "/v1/completions"), "empty_prompt", "the prompt is empty"),
    ],
)
def test_a_bad_line_is_a_fault_with_the_id_it_gives(value: Any, code: str, message: str) -> None:
    found = fault(value)
    assert (found.code, found.ref.id) == (code, "request-1")
    assert message in found.message


def test_url_and_body_beside_a_prompt_are_data() -> None:
    assert row({"prompt": "Hi", "url": "https://example.com", "body": "x"}).ref.carried == {
        "url": "https://example.com",
        "body": "x",
    }
