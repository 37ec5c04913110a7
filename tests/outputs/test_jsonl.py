from __future__ import annotations

import json
import time
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cbatch.logprobs import Logprobs
from cbatch.outputs.files import WriteError
from cbatch.outputs.jsonl import JsonlResults
from cbatch.outputs.results import Result
from cbatch.types import FinishReason, RowRef
from tests.metrics.factories import make_fault, make_logprobs, make_output, make_ref, make_samples, spell


def open_results(directory: Path) -> JsonlResults:
    return JsonlResults(directory, "smollm2", lambda ref: ref.number != 2, spell)


def read(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def test_a_chat_row_has_the_openai_batch_form(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    output = make_output([1, 2], prompt_tokens=5, text="héllo", reason=FinishReason.LENGTH)
    results.add(Result.of_output(make_ref(1, row_id="a"), output))
    results.close()
    [line] = read(tmp_path / "results.jsonl")
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


def test_what_the_context_could_not_hold_is_told_beside_the_response(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    output = make_output([1, 2], dropped_tokens=3)
    results.add(Result.of_output(make_ref(1), output))
    results.add(Result.of_output(make_ref(2), replace(output, request=replace(output.request, truncated_tokens=4))))
    results.close()
    dropped, both = read(tmp_path / "results.jsonl")
    assert dropped["dropped_tokens"] == 3
    assert "truncated_tokens" not in dropped
    assert (both["truncated_tokens"], both["dropped_tokens"]) == (4, 3)


def test_a_completion_row_has_its_own_object(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    results.add(Result.of_output(make_ref(2), make_output([1], text="x")))
    results.close()
    body = read(tmp_path / "results.jsonl")[0]["response"]["body"]
    assert (body["id"], body["object"]) == ("cmpl-2", "text_completion")
    assert body["choices"] == [{"index": 0, "text": "x", "logprobs": None, "finish_reason": "stop"}]


def test_samples_are_choices_and_usage_counts_them_all(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    output = make_samples(make_output([1, 2], prompt_tokens=5, text="x"), make_output([1, 2, 3], text="y"))
    results.add(Result.of_output(make_ref(1), output))
    results.close()
    body = read(tmp_path / "results.jsonl")[0]["response"]["body"]
    assert [(c["index"], c["message"]["content"]) for c in body["choices"]] == [(0, "x"), (1, "y")]
    assert body["usage"] == {"prompt_tokens": 5, "completion_tokens": 5, "total_tokens": 10}
    assert "prompt_logprobs" not in body


def test_a_chat_s_scored_prompt_stands_beside_its_choices(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    prompt = make_logprobs((float("nan"), []), (-2.0, []))
    for number in (1, 2):
        output = make_output(prompt_tokens=2, logprobs=Logprobs.of([]), prompt_logprobs=prompt)
        results.add(Result.of_output(make_ref(number), output))
    results.close()
    chat, completion = (line["response"]["body"] for line in read(tmp_path / "results.jsonl"))
    assert [(place["token"], place["logprob"]) for place in chat["prompt_logprobs"]] == [("a", None), ("a", -2.0)]
    assert "prompt_logprobs" not in completion
    assert completion["choices"][0]["logprobs"]["token_logprobs"] == [None, -2.0]


def test_bad_rows_have_an_error_and_no_response(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    results.add(Result.of_fault(make_fault(3)))
    results.add(Result.of_output(make_ref(4), make_output(reason=FinishReason.CANCELLED)))
    results.close()
    fault, cancelled = read(tmp_path / "results.jsonl")
    assert fault == {
        "id": "batch_req_3",
        "custom_id": "row-3",
        "response": None,
        "error": {"code": "empty_prompt", "message": "prompts.jsonl:3: the prompt is empty: give some text"},
    }
    assert cancelled["response"] is None
    assert cancelled["error"]["code"] == "cancelled"


def test_carried_fields_stand_beside_the_response(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    results.add(Result.of_fault(make_fault(1, {"big": 2**70, "nested": [{"a": None}]})))
    results.close()
    assert read(tmp_path / "results.jsonl")[0]["carried"] == {"big": 2**70, "nested": [{"a": None}]}


def test_a_line_is_with_the_system_at_once_and_named_at_the_end(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    results.add(Result.of_fault(make_fault()))
    assert len(read(tmp_path / ".results.jsonl.tmp")) == 1
    assert not (tmp_path / "results.jsonl").exists()
    results.close()
    results.close()
    assert [p.name for p in tmp_path.iterdir()] == ["results.jsonl"]


def test_a_model_whose_file_name_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    results = JsonlResults(tmp_path, "caf\udce9.gguf", lambda _: True, spell)
    results.add(Result.of_output(make_ref(1), make_output([1])))
    results.close()
    [line] = read(tmp_path / "results.jsonl")
    assert line["response"]["body"]["model"] == "caf\udce9.gguf"


def test_what_is_discarded_goes_unless_it_is_complete(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    results.add(Result.of_fault(make_fault()))
    results.discard()
    results.close()
    assert list(tmp_path.iterdir()) == []
    done = open_results(tmp_path)
    done.close()
    done.discard()
    assert [p.name for p in tmp_path.iterdir()] == ["results.jsonl"]


def test_line_separators_in_text_do_not_split_a_line(tmp_path: Path) -> None:
    results = open_results(tmp_path)
    results.add(Result.of_output(make_ref(), make_output([1], text="a\nb\r\nc")))
    results.close()
    assert (tmp_path / "results.jsonl").read_bytes().count(b"\n") == 1


def test_a_full_disk_keeps_the_whole_lines(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    class HalfFull:
        """Takes ten bytes and refuses the rest."""

        closed = False

        def __init__(self, file: Any) -> None:
            self.file = file

        def write(self, data: memoryview) -> int:
            if len(data) > 10 and self.file.write(data[:10]):
                return 10
            raise OSError(28, "No space left on device")

        def __getattr__(self, name: str) -> Any:
            return getattr(self.file, name)

    results = open_results(tmp_path)
    results.add(Result.of_fault(make_fault(1)))
    monkeypatch.setattr(results, "_file", HalfFull(results._file))
    with pytest.raises(WriteError, match=r"results\.jsonl can't be written: No space left on device"):
        results.add(Result.of_fault(make_fault(2)))
    results.close()
    assert [line["id"] for line in read(tmp_path / "results.jsonl")] == ["batch_req_1"]


def test_is_chat_is_asked_for_each_row(tmp_path: Path) -> None:
    asked: list[int] = []

    def is_chat(ref: RowRef) -> bool:
        asked.append(ref.number)
        return True

    results = JsonlResults(tmp_path, "m", is_chat, spell)
    results.add(Result.of_output(make_ref(5), make_output([1])))
    results.close()
    assert asked == [5]
