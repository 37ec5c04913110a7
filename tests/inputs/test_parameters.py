from __future__ import annotations

from typing import Any

import pytest

from cbatch.inputs.parameters import sampling_of
from cbatch.sampling import SamplingParams
from tests.inputs.reading import DEFAULTS, fault, row


def sampling(**fields: Any) -> SamplingParams:
    return row({"prompt": "Hi", **fields}).sampling


def test_a_row_without_parameters_shares_the_defaults() -> None:
    assert sampling() is DEFAULTS
    assert sampling(category="x") is DEFAULTS


def test_every_parameter_of_a_row_goes_on_top_of_the_defaults() -> None:
    assert sampling(
        max_tokens=3,
        temperature=0,
        top_k=1,
        top_p=0.5,
        min_p=0.1,
        typical_p=0.9,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=1,
        logit_bias={"7": -100, "8": 1.5},
        stop=["a", "b"],
        stop_token_ids=[1, 2],
        ignore_eos=True,
        n=2,
        best_of=3,
        logprobs=4,
        echo=True,
    ) == SamplingParams(
        max_tokens=3,
        temperature=0,
        top_k=1,
        top_p=0.5,
        min_p=0.1,
        typical_p=0.9,
        repetition_penalty=1.1,
        presence_penalty=-1,
        frequency_penalty=1,
        logit_bias=((7, -100), (8, 1.5)),
        seed=9,
        stop=("a", "b"),
        stop_token_ids=(1, 2),
        ignore_eos=True,
        n=2,
        best_of=3,
        logprobs=4,
        echo=True,
    )


def test_zero_and_empty_are_values_and_null_is_the_default() -> None:
    assert sampling(seed=0).seed == 0
    assert sampling(temperature=0.0).temperature == 0
    assert sampling(stop=[]).stop == ()
    assert sampling(seed=None, stop=None, max_tokens=None, n=None) is DEFAULTS


@pytest.mark.parametrize(
    ("alias", "name", "value"),
    [
        ("max_completion_tokens", "max_tokens", 5),
        ("n_predict", "max_tokens", 5),
        ("repeat_penalty", "repetition_penalty", 1.3),
        ("typ_p", "typical_p", 0.7),
    ],
)
def test_other_names_of_a_parameter(alias: str, name: str, value: float) -> None:
    assert getattr(sampling(**{alias: value}), name) == value
    assert sampling(**{alias: value, name: value}) == sampling(**{name: value})
    assert sampling(**{alias: None, name: value}) == sampling(**{name: value})
    assert fault({"prompt": "Hi", alias: value, name: 1}).code == "invalid_parameter"


def test_stop_may_be_one_string() -> None:
    assert sampling(stop="###").stop == ("###",)


@pytest.mark.parametrize(
    ("field", "value", "message"),
    [
        ("temperature", -1, "temperature is -1: give a number from 0 to 100"),
        ("temperature", "hot", "temperature is 'hot'"),
        ("temperature", 10**400, "temperature is 1000"),
        ("max_tokens", 0, "max_tokens is 0"),
        ("max_tokens", 2.5, "max_tokens is 2.5: give a whole number"),
        ("max_tokens", True, "max_tokens is True"),
        ("max_tokens", "9" * 100_000, "give a whole number"),
        ("seed", 2**63, "seed is 9223372036854775808"),
        ("stop", 5, "stop is 5: give a string or a list of strings"),
        ("stop", "", "stop holds ''"),
        ("stop", [["a"]], "stop holds"),
        ("stop_token_ids", 5, "stop_token_ids is 5: give a list of token ids"),
        ("stop_token_ids", ["a"], "stop_token_ids is 'a'"),
        ("logit_bias", [[1, 2]], "logit_bias is a list: give an object"),
        ("logit_bias", {"the": 1}, "logit_bias names token 'the'"),
        ("logit_bias", {"-1": 1}, "logit_bias names token '-1'"),
        ("logit_bias", {"9" * 5000: 1}, "logit_bias names token"),
        ("logit_bias", {"1": None}, "logit_bias of token 1 is None"),
        ("ignore_eos", "yes", "ignore_eos is 'yes': give true or false"),
        ("n", 0, "n is 0: give a whole number from 1 to 128"),
        ("n", 129, "n is 129"),
        ("n", "3", "n is '3'"),
        ("best_of", 129, "best_of is 129"),
        ("best_of", 0, "best_of is 0"),
        ("logprobs", 21, "logprobs is 21: give a whole number from 0 to 20"),
        ("logprobs", -1, "logprobs is -1"),
        ("logprobs", "yes", "logprobs is 'yes'"),
        ("logprobs", 5.0, "logprobs is 5.0"),
        ("top_logprobs", 5, "top_logprobs is 5, without logprobs: give logprobs as true too"),
        ("top_logprobs", 21, "top_logprobs is 21: give a whole number from 0 to 20"),
        ("top_logprobs", True, "top_logprobs is true"),
        ("top_logprobs", [], "top_logprobs is a list"),
        ("echo", 1, "echo is 1: give true or false"),
        ("priority", 1.5, "priority is 1.5: give high, normal, low or a whole number"),
        ("priority", False, "priority is false"),
        ("priority", 2**31, "priority is 2147483648"),
    ],
)
def test_a_parameter_out_of_range_is_a_short_fault_with_value_and_fix(field: str, value: Any, message: str) -> None:
    found = fault({"prompt": "Hi", field: value})
    assert found.code == "invalid_parameter"
    assert message in found.message
    assert len(found.message) <= 300


@pytest.mark.parametrize(
    ("field", "harmless", "harmful"),
    [
        ("suffix", "", " end"),
        ("tools", [], [{"type": "function"}]),
        ("functions", [], [{"name": "f"}]),
        ("modalities", ["text"], ["text", "audio"]),
        ("response_format", {"type": "text"}, {"type": "json_object"}),
    ],
)
def test_what_would_change_the_answer_is_refused_unless_it_asks_for_nothing(
    field: str, harmless: Any, harmful: Any
) -> None:
    assert row({"prompt": "Hi", field: harmless}).ref.carried == {}
    found = fault({"prompt": "Hi", field: harmful})
    assert found.code == "unsupported_parameter"
    assert found.message.startswith(f"{field} is ")


def test_fewer_samples_to_choose_from_than_to_give_back() -> None:
    found = fault({"prompt": "Hi", "n": 3, "best_of": 2})
    assert (found.code, found.message) == ("invalid_parameter", "best_of is 2, below n, which is 3: give at least n")
    assert (sampling(n=3).num_samples, sampling(n=3, best_of=3).num_samples, sampling(best_of=4).num_samples) == (
        3,
        3,
        4,
    )


@pytest.mark.parametrize(
    ("fields", "expected"),
    [
        ({}, None),
        ({"logprobs": None}, None),
        ({"logprobs": False}, None),
        ({"logprobs": False, "top_logprobs": 0}, None),
        ({"top_logprobs": 0}, None),
        ({"logprobs": 0}, 0),
        ({"logprobs": 1}, 1),
        ({"logprobs": 5}, 5),
        ({"logprobs": 5, "top_logprobs": 5}, 5),
        ({"logprobs": True}, 0),
        ({"logprobs": True, "top_logprobs": None}, 0),
        ({"logprobs": True, "top_logprobs": 0}, 0),
        ({"logprobs": True, "top_logprobs": 20}, 20),
    ],
)
def test_logprobs_as_a_number_or_as_true_and_a_number(fields: dict[str, Any], expected: int | None) -> None:
    found = row({"prompt": "Hi", **fields})
    assert found.sampling.logprobs == expected
    assert type(found.sampling.logprobs) is type(expected)
    assert found.ref.carried == {}


def test_two_numbers_of_logprobs() -> None:
    found = fault({"prompt": "Hi", "logprobs": 3, "top_logprobs": 5})
    assert found.message == "top_logprobs is 5, but logprobs is 3: keep one"
    assert "without logprobs" in fault({"prompt": "Hi", "logprobs": False, "top_logprobs": 5}).message


def test_a_row_goes_before_the_runs_logprobs() -> None:
    def asked(**fields: Any) -> int | None:
        return sampling_of(fields, SamplingParams(logprobs=4)).logprobs

    assert (asked(), asked(logprobs=None), asked(logprobs=False), asked(logprobs=True)) == (4, 4, None, 0)
    assert (asked(top_logprobs=2), asked(logprobs=1)) == (2, 1)


def test_logprobs_are_needed_to_choose_among_samples() -> None:
    assert [
        sampling(**fields).logprobs_needed
        for fields in ({}, {"n": 3}, {"n": 2, "best_of": 2}, {"n": 2, "best_of": 3}, {"best_of": 3, "logprobs": 5})
    ] == [None, None, None, 0, 5]


def test_priority() -> None:
    assert row({"prompt": "Hi", "priority": -3}).priority == -3
    assert row({"prompt": "Hi", "priority": None}).priority == 0
    assert [row({"prompt": "Hi", "priority": name}).priority for name in ("high", "normal", "low")] == [-1, 0, 1]
    assert row("Hi").priority == 0
