from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from hypothesis import given

from cbatch.outputs import schema
from cbatch.outputs.carried import plan_columns
from cbatch.outputs.results import Result, results_batch
from cbatch.types import FinishReason, RowFault, RowRef
from tests.metrics.factories import make_fault, make_logprobs, make_output, make_ref, make_samples
from tests.outputs.test_carried import restore, rows, without_nulls


def tabled(*results: Result, sample: Sequence[RowRef] = ()) -> list[dict[str, Any]]:
    columns = plan_columns(sample)
    rows: list[dict[str, Any]] = results_batch(results, columns, schema.results(columns)).to_pylist()
    return rows


def test_a_finished_row() -> None:
    ref = make_ref(7, {"label": "spam"}, "seven")
    output = make_output([1, 2], prompt_tokens=5, text="héllo 😀", dropped_tokens=3)
    output = replace(output, request=replace(output.request, truncated_tokens=4))
    assert tabled(Result.of_output(ref, output), sample=[ref]) == [
        {
            "row": 7,
            "id": "seven",
            "label": "spam",
            "prompt_tokens": 5,
            "truncated_tokens": 4,
            "output_text": "héllo 😀",
            "output_tokens": 2,
            "dropped_tokens": 3,
            "finish_reason": "stop",
            "error_code": None,
            "error": None,
            "samples": None,
            "logprobs": None,
            "prompt_logprobs": None,
            "carried_json": None,
        }
    ]


def test_logprobs_are_of_the_output_and_of_the_prompt() -> None:
    output = make_output(
        [1, 2],
        prompt_tokens=2,
        logprobs=make_logprobs((-0.5, [(5, -0.25)]), (-1.0, [(1, -1.0)])),
        prompt_logprobs=make_logprobs((math.nan, [(-1, math.nan)]), (-3.0, [(8, -0.125)])),
    )
    first, second = tabled(Result.of_output(make_ref(1), output), Result.of_output(make_ref(2), make_output([1])))
    assert first["logprobs"] == [
        {"token_id": 0, "logprob": -0.5, "top": [{"token_id": 5, "logprob": -0.25}]},
        {"token_id": 1, "logprob": -1.0, "top": [{"token_id": 1, "logprob": -1.0}]},
    ]
    assert first["prompt_logprobs"] == [
        {"token_id": 0, "logprob": None, "top": []},
        {"token_id": 0, "logprob": -3.0, "top": [{"token_id": 8, "logprob": -0.125}]},
    ]
    assert second["logprobs"] is second["prompt_logprobs"] is None


def test_samples_stand_together_in_one_row() -> None:
    done = make_output([1, 2], text="a", logprobs=make_logprobs((-0.5, []), (-1.5, [])))
    broken = make_output([1], text="b", reason=FinishReason.ERROR, error="llama_decode gave -3")
    row = make_samples(done, broken)
    [found] = tabled(Result.of_output(make_ref(1), row))
    assert (found["output_text"], found["output_tokens"], found["finish_reason"]) == ("a", 2, "stop")
    assert (found["error_code"], found["error"]) == (None, None)
    places = [{"token_id": 0, "logprob": -0.5, "top": []}, {"token_id": 1, "logprob": -1.5, "top": []}]
    assert found["logprobs"] == places
    assert found["samples"] == [
        {
            "sample": 0,
            "output_text": "a",
            "output_tokens": 2,
            "finish_reason": "stop",
            "error": None,
            "mean_logprob": -1.0,
            "logprobs": places,
        },
        {
            "sample": 1,
            "output_text": "b",
            "output_tokens": 1,
            "finish_reason": "error",
            "error": "llama_decode gave -3",
            "mean_logprob": None,
            "logprobs": None,
        },
    ]


def test_a_row_fails_with_its_first_sample() -> None:
    broken = make_output([1], text="half", reason=FinishReason.ERROR, error="broke")
    [found] = tabled(Result.of_output(make_ref(1), make_samples(broken, make_output([1], text="whole"))))
    assert (found["error_code"], found["output_text"]) == ("generation_failed", "half")
    assert [sample["output_text"] for sample in found["samples"]] == ["half", "whole"]


def test_rows_that_ended_badly_say_why() -> None:
    broken = make_output([1], reason=FinishReason.ERROR, error="llama_decode gave -3", text="half")
    found = tabled(
        Result.of_output(make_ref(1), broken),
        Result.of_output(make_ref(2), make_output(reason=FinishReason.CANCELLED)),
        Result.of_fault(make_fault(3, {"label": 1})),
    )
    assert [r["finish_reason"] for r in found] == ["error", "cancelled", "error"]
    assert [r["error_code"] for r in found] == ["generation_failed", "cancelled", "empty_prompt"]
    assert found[0]["error"].endswith(": llama_decode gave -3")
    assert found[0]["output_text"] == "half"
    assert "run it again" in found[1]["error"]
    assert found[2]["error"].endswith(": the prompt is empty: give some text")
    assert found[2]["output_text"] is None
    assert found[2]["prompt_tokens"] is None
    assert found[2]["carried_json"] == '{"label": 1}'


def test_a_message_with_an_undecodable_file_name_can_be_written() -> None:
    fault = RowFault(make_ref(), "invalid_json", "in a\udcff.jsonl")
    assert Result.of_fault(fault).error == "prompts.jsonl:1: in a\\udcff.jsonl"


def test_a_file_name_that_is_not_utf8_may_be_an_id() -> None:
    [found] = tabled(Result.of_output(make_ref(1, row_id="caf\udce9.txt"), make_output([1])))
    assert found["id"] == "caf\\udce9.txt"


@given(rows, rows, rows)
def test_carried_values_come_back(first: dict[str, Any], second: dict[str, Any], later: dict[str, Any]) -> None:
    sample = [make_ref(1, first), make_ref(2, second)]
    refs = (*sample, make_ref(3, later))
    found = tabled(*(Result.of_fault(RowFault(ref, "x", "x")) for ref in refs), sample=sample)
    columns = plan_columns(sample)
    assert [restore(columns, row) for row in found] == [without_nulls(r) for r in (first, second, later)]
