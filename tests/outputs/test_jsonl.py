from __future__ import annotations

import json
import math
import time
from dataclasses import replace
from decimal import Decimal
from typing import Any

import pyarrow as pa

from cbatch.logprobs import Logprobs
from cbatch.outputs import schema
from cbatch.outputs.jsonl import JsonLines
from cbatch.outputs.results import Result
from cbatch.types import FinishReason, RowRef
from tests.metrics.factories import make_fault, make_logprobs, make_output, make_ref, make_samples, spell


def render(*results: Result) -> list[dict[str, Any]]:
    lines = JsonLines("smollm2", lambda ref: ref.number != 2, spell)
    return [json.loads(line) for line in lines.batch(results)["line"].to_pylist()]


def test_a_chat_row_has_the_openai_batch_form() -> None:
    output = make_output([1, 2], prompt_tokens=5, text="héllo", reason=FinishReason.LENGTH)
    [line] = render(Result.of_output(make_ref(1, row_id="a"), output))
    created = line["response"]["body"].pop("created")
    assert abs(created - time.time()) < 60
    assert line == {
        "id": "batch_req_1",
        "custom_id": "a",
        "response": {
            "status_code": 200,
            "request_id": "req_1",
            "body": {
                "id": "chatcmpl-1",
                "object": "chat.completion",
                "model": "smollm2",
                "choices": [
                    {
                        "index": 0,
                        "message": {"role": "assistant", "content": "héllo"},
                        "logprobs": None,
                        "finish_reason": "length",
                    }
                ],
                "usage": {"prompt_tokens": 5, "completion_tokens": 2, "total_tokens": 7},
            },
        },
        "error": None,
    }


def test_what_the_context_could_not_hold_is_told_beside_the_response() -> None:
    output = make_output([1, 2], dropped_tokens=3)
    cut = replace(output, request=replace(output.request, truncated_tokens=4))
    dropped, both = render(Result.of_output(make_ref(1), output), Result.of_output(make_ref(2), cut))
    assert dropped["dropped_tokens"] == 3
    assert "truncated_tokens" not in dropped
    assert (both["truncated_tokens"], both["dropped_tokens"]) == (4, 3)


def test_a_completion_row_has_its_own_object() -> None:
    body = render(Result.of_output(make_ref(2), make_output([1], text="x")))[0]["response"]["body"]
    assert (body["id"], body["object"]) == ("cmpl-2", "text_completion")
    assert body["choices"] == [{"index": 0, "text": "x", "logprobs": None, "finish_reason": "stop"}]


def test_samples_are_choices_and_usage_counts_them_all() -> None:
    output = make_samples(make_output([1, 2], prompt_tokens=5, text="x"), make_output([1, 2, 3], text="y"))
    body = render(Result.of_output(make_ref(1), output))[0]["response"]["body"]
    assert [(c["index"], c["message"]["content"]) for c in body["choices"]] == [(0, "x"), (1, "y")]
    assert body["usage"] == {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    assert "prompt_logprobs" not in body


def test_a_chat_s_scored_prompt_stands_beside_its_choices() -> None:
    prompt = make_logprobs((float("nan"), []), (-2.0, []))
    output = make_output(prompt_tokens=2, logprobs=Logprobs.of([]), prompt_logprobs=prompt)
    lines = render(*(Result.of_output(make_ref(number), output) for number in (1, 2)))
    chat, completion = (line["response"]["body"] for line in lines)
    assert [(place["token"], place["logprob"]) for place in chat["prompt_logprobs"]] == [("a", None), ("a", -2.0)]
    assert "prompt_logprobs" not in completion
    assert completion["choices"][0]["logprobs"]["token_logprobs"] == [None, -2.0]


def test_bad_rows_have_an_error_and_no_response() -> None:
    fault, cancelled = render(
        Result.of_fault(make_fault(3)), Result.of_output(make_ref(4), make_output(reason=FinishReason.CANCELLED))
    )
    assert fault == {
        "id": "batch_req_3",
        "custom_id": "row-3",
        "response": None,
        "error": {"code": "empty_prompt", "message": "prompts.jsonl:3: the prompt is empty: give some text"},
    }
    assert cancelled["response"] is None
    assert cancelled["error"]["code"] == "cancelled"


def test_carried_fields_stand_beside_the_response() -> None:
    [line] = render(Result.of_fault(make_fault(1, {"big": 2**70, "nested": [{"a": None}]})))
    assert line["carried"] == {"big": 2**70, "nested": [{"a": None}]}


def test_carried_values_of_typed_sources_get_a_form_that_json_has() -> None:
    carried = {"at": pa.scalar(1, pa.timestamp("ns")), "share": math.nan, "price": pa.scalar(Decimal("1.50"))}
    [line] = render(Result.of_fault(make_fault(1, carried)))
    assert line["carried"] == {"at": "1970-01-01T00:00:00.000000001", "share": "nan", "price": "1.50"}


def test_a_model_whose_file_name_is_not_utf8_is_escaped() -> None:
    lines = JsonLines("caf\udce9.gguf", lambda _: True, spell)
    line = lines.line(Result.of_output(make_ref(1), make_output([1])))
    assert json.loads(line)["response"]["body"]["model"] == "caf\udce9.gguf"


def test_line_separators_in_text_do_not_split_a_line() -> None:
    lines = JsonLines("m", lambda _: True, spell)
    assert len(lines.line(Result.of_output(make_ref(), make_output([1], text="a\nb\r\nc"))).splitlines()) == 1


def test_a_line_has_its_row_and_what_became_of_it_beside_it() -> None:
    lines = JsonLines("m", lambda _: True, spell)
    batch = lines.batch([Result.of_output(make_ref(5), make_output([1])), Result.of_fault(make_fault(6))])
    assert batch.schema.equals(schema.LINES)
    assert batch.select(["row", "id", "finish_reason", "error_code"]).to_pylist() == [
        {"row": 5, "id": "row-5", "finish_reason": "stop", "error_code": None},
        {"row": 6, "id": "row-6", "finish_reason": "error", "error_code": "empty_prompt"},
    ]


def test_is_chat_is_asked_for_each_row() -> None:
    asked: list[int] = []

    def is_chat(ref: RowRef) -> bool:
        asked.append(ref.number)
        return True

    JsonLines("m", is_chat, spell).line(Result.of_output(make_ref(5), make_output([1])))
    assert asked == [5]
