from __future__ import annotations

import json
import math
from dataclasses import replace
from typing import Any

import numpy as np

from cbatch.outputs.choices import choices, prompt_places
from cbatch.types import FinishReason, RequestOutput
from tests.metrics.factories import make_logprobs, make_output, make_samples, spell

A, B, E_1, E_2 = 0, 1, 256, 257
"""Tokens: `a`, `b`, and the two bytes of `é`."""


def scored(text: str = "aé", tokens: tuple[int, ...] = (A, E_1, E_2), **fields: Any) -> RequestOutput:
    """Its tokens have -1, -2, ..., and `b` has half of that."""
    places = [(-1.0 - i, [(B, (-1.0 - i) / 2)]) for i in range(len(tokens))]
    output = make_output(range(len(tokens)), text=text, logprobs=make_logprobs(*places), **fields)
    return replace(output, token_ids=np.array(tokens, np.int32))


def of(output: RequestOutput, *, chat: bool) -> list[dict[str, Any]]:
    found = choices((output, *output.others), spell, chat=chat)
    json.dumps(found, allow_nan=False)
    return found


def test_a_chat_s_logprobs_are_its_content() -> None:
    [choice] = of(scored(), chat=True)
    assert choice["message"] == {"role": "assistant", "content": "aé"}
    content = choice["logprobs"]["content"]
    assert choice["logprobs"]["refusal"] is None
    assert [(place["token"], place["logprob"], place["bytes"]) for place in content] == [
        ("a", -1.0, [97]),
        ("\\xc3", -2.0, [0xC3]),
        ("\\xa9", -3.0, [0xA9]),
    ]
    assert content[1]["top_logprobs"] == [{"token": "b", "logprob": -1.0, "bytes": [98]}]


def test_a_completion_s_logprobs_are_four_lists() -> None:
    [choice] = of(scored("aéb", (A, E_1, E_2, B)), chat=False)
    assert choice["text"] == "aéb"
    assert choice["logprobs"] == {
        "tokens": ["a", "\\xc3", "\\xa9", "b"],
        "token_logprobs": [-1.0, -2.0, -3.0, -4.0],
        "top_logprobs": [{"b": -0.5, "a": -1.0}, {"b": -1.0, "\\xc3": -2.0}, {"b": -1.5, "\\xa9": -3.0}, {"b": -2.0}],
        "text_offset": [0, 1, 1, 2],
    }


def test_unasked_there_are_none() -> None:
    assert [of(make_output([1]), chat=chat)[0]["logprobs"] for chat in (True, False)] == [None, None]


def test_an_echoed_prompt_stands_before_a_completion_s_tokens() -> None:
    prompt = make_logprobs((math.nan, [(-1, math.nan)]), (-9.0, [(A, -0.1)]))
    output = scored("aab", (B,), prompt_tokens=2, prompt_logprobs=prompt)
    [choice] = of(output, chat=False)
    assert choice["logprobs"] == {
        "tokens": ["a", "a", "b"],
        "token_logprobs": [None, -9.0, -1.0],
        "top_logprobs": [None, {"a": -0.1}, {"b": -0.5}],
        "text_offset": [0, 1, 2],
    }
    [choice] = of(output, chat=True)
    assert [place["token"] for place in choice["logprobs"]["content"]] == ["b"]
    assert prompt_places(output, spell) == [
        {"token": "a", "logprob": None, "bytes": [97], "top_logprobs": []},
        {
            "token": "a",
            "logprob": -9.0,
            "bytes": [97],
            "top_logprobs": [{"token": "a", "logprob": -0.1, "bytes": [97]}],
        },
    ]


def test_offsets_know_of_the_space_that_an_echo_comes_without() -> None:
    def spaced(token: int) -> bytes:
        return b" a" if token == A else b"b"

    output = scored("ab a", (B, A), prompt_tokens=1, prompt_logprobs=make_logprobs((math.nan, [(-1, math.nan)])))
    [choice] = choices((output,), spaced, chat=False)
    assert choice["logprobs"]["text_offset"] == [0, 1, 2]


def test_impossible_tokens_have_a_number_that_json_can_hold() -> None:
    output = make_output([1], logprobs=make_logprobs((-math.inf, [(B, math.nan)])))
    [choice] = of(output, chat=True)
    assert choice["logprobs"]["content"][0]["logprob"] == -9999.0
    assert choice["logprobs"]["content"][0]["top_logprobs"][0]["logprob"] is None


def test_samples_are_choices_in_order_and_a_failed_one_says_why() -> None:
    broken = make_output([3], text="c", reason=FinishReason.ERROR, error="llama_decode gave -3")
    found = of(make_samples(make_output([1], text="a"), make_output([2], text="b"), broken), chat=False)
    assert [(c["index"], c["text"], c["finish_reason"]) for c in found] == [
        (0, "a", "stop"),
        (1, "b", "stop"),
        (2, "c", "error"),
    ]
    assert found[2]["error"] == {"code": "generation_failed", "message": "llama_decode gave -3"}
    assert "error" not in found[0]
