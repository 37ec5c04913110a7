"""ShareGPT, plain prompts, OpenAI Batch lines, and cbatch's own traces: those with texts."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cbatch.errors import InputError, UsageError
from cbatch.traces.importing import import_trace
from cbatch.traces.trace import TraceRequest
from tests.traces.files import lint_messages, read, write_lines, write_parquet, write_records


def conversation(*turns: tuple[str, str]) -> dict[str, Any]:
    return {"id": "x", "conversations": [{"from": who, "value": text} for who, text in turns]}


def sharegpt(folder: Path, *conversations: dict[str, Any]) -> Path:
    return write_lines(folder, json.dumps(conversations, indent=2))


def texts(requests: Sequence[TraceRequest]) -> list[tuple[str | None, int | None]]:
    return [(request.prompt, request.output_tokens) for request in requests]


def test_sharegpt_gives_first_prompts_at_given_times(tmp_path: Path) -> None:
    path = sharegpt(
        tmp_path,
        conversation(("human", "Hi"), ("gpt", "Hello there")),
        conversation(("gpt", "continued"), ("human", "And?"), ("gpt", "So."), ("human", "Thanks")),
        conversation(("human", "No answer")),
    )
    requests, imported = read(path, arrivals=iter([0, 5, 9]), count_tokens=len)
    assert texts(requests) == [("Hi", 11), ("And?", 3), ("No answer", None)]
    assert [request.arrival_ns for request in requests] == [0, 5, 9]
    assert imported.changes == {"conversations_cut_to_their_first_prompt": 1}
    assert imported.format.name == "sharegpt"


def test_without_a_count_of_tokens_replies_have_no_length(tmp_path: Path) -> None:
    path = sharegpt(tmp_path, conversation(("human", "Hi"), ("gpt", "Hello")))
    assert texts(read(path, arrivals=iter([0]))[0]) == [("Hi", None)]
    assert "natural_outputs" in lint_messages(path)
    assert "no times" in lint_messages(path)["no_times"]


def test_conversations_without_a_prompt_are_left_out_and_counted(tmp_path: Path) -> None:
    path = sharegpt(tmp_path, conversation(), conversation(("gpt", "x")), conversation(("human", "Hi"), ("gpt", "")))
    requests, imported = read(path, arrivals=iter([0, 5, 9]), count_tokens=len)
    assert texts(requests) == [("Hi", 1)]
    assert imported.changes == {"conversations_without_a_prompt_left_out": 2, "zero_outputs_raised_to_1": 1}


def test_plain_prompts(tmp_path: Path) -> None:
    path = write_records(
        tmp_path,
        "Hi",
        {"prompt": "How?", "max_tokens": 5, "priority": -2, "temperature": 0.5},
        {"messages": [{"role": "user", "content": "Who?"}]},
    )
    requests, imported = read(path, arrivals=iter([0, 1, 2]))
    assert requests == [TraceRequest(0, "Hi"), TraceRequest(1, "How?", priority=-2), TraceRequest(2, "Who?")]
    assert imported.format.name == "prompts"


@pytest.mark.parametrize(
    ("record", "message"),
    [
        (
            {"messages": [{"role": "system", "content": "a"}, {"role": "user", "content": "b"}]},
            "messages is 2 messages",
        ),
        ({"messages": [{"role": "system", "content": "a"}]}, "the message has role 'system'"),
        ({"messages": [{"role": "user", "content": [1]}]}, "content is a list: give one string"),
        ({"messages": "Hi"}, "messages is 'Hi'"),
        ({"messages": [], "prompt": "x"}, "both prompt and messages"),
        ({"prompt": ""}, "prompt is empty"),
        ({"text": "x"}, "prompt is missing (found 'text')"),
        ({"prompt": "a\ud800"}, "half a surrogate pair"),
        ({"prompt": "a", "priority": "urgent"}, "priority is 'urgent': give high, normal, low or a whole number"),
        (7, "the record is 7"),
    ],
)
def test_a_line_that_is_no_plain_prompt_says_why(tmp_path: Path, record: Any, message: str) -> None:
    path = write_records(tmp_path, "Hi", record)
    assert f"{path}:2: " in lint_messages(path)["bad_lines"]
    assert message in lint_messages(path)["bad_lines"]


def test_openai_batch_lines(tmp_path: Path) -> None:
    chat = {"messages": [{"role": "user", "content": "Hi"}], "max_tokens": 9}
    line = {"custom_id": "a", "method": "POST", "url": "/v1/chat/completions", "body": chat}
    path = write_records(
        tmp_path, line, {**line, "url": "/v1/completions", "body": {"prompt": "Go"}}, {**line, "body": 1}
    )
    requests, imported = read(path, arrivals=iter([0, 1, 2]))
    assert requests == [TraceRequest(0, "Hi"), TraceRequest(1, "Go")]
    assert (imported.format.name, imported.changes) == ("openai", {"bad_lines_left_out": 1})


def test_formats_without_times_need_arrivals(tmp_path: Path) -> None:
    with pytest.raises(UsageError, match=r"holds prompts, which have no times: give .*--request-rate"):
        import_trace(write_records(tmp_path, "Hi"))


def test_own_traces_keep_their_times(tmp_path: Path) -> None:
    columns = {"arrival_s": [0.5, 1.25], "prompt_tokens": [10, 20], "output_tokens": [None, 3], "tenant": ["a", "b"]}
    requests, imported = read(write_parquet(tmp_path, columns))
    assert requests == [
        TraceRequest(500_000_000, prompt_tokens=10, tenant="a"),
        TraceRequest(1_250_000_000, prompt_tokens=20, output_tokens=3, tenant="b"),
    ]
    assert (imported.format.name, imported.changes) == ("cbatch", {})


def test_own_traces_are_right_as_a_whole_or_refused(tmp_path: Path) -> None:
    path = write_parquet(tmp_path, {"arrival_s": [0.5, 0.25], "prompt_tokens": [10, 20]})
    with pytest.raises(InputError, match="sort the rows"):
        read(path)
    assert "sort the rows" in lint_messages(path)["unreadable"]
