"""What is expected of requests, before and after others like them have finished."""

from __future__ import annotations

from typing import Any

from cbatch.engine.lengths import OutputLengths
from cbatch.engine.sequence import Sequence
from cbatch.types import FinishReason
from tests.engine.factories import request


def finished(length: int, reason: FinishReason = FinishReason.STOP, **fields: Any) -> Sequence:
    seq = Sequence(request("a", **fields), 0)
    for _ in range(length):
        seq.append(97, 0)
    seq.finish(reason, 0)
    return seq


def test_max_tokens_until_enough_have_finished_then_their_mean() -> None:
    lengths = OutputLengths()
    for length in range(1, 8):
        lengths.learn(finished(length, max_tokens=100))
        assert lengths.expected(request("b", max_tokens=100)) == 100
    lengths.learn(finished(100, FinishReason.LENGTH, max_tokens=100))
    assert lengths.expected(request("b", max_tokens=100)) == 128 / 8
    assert lengths.expected(request("b", max_tokens=99)) == 99
    assert lengths.learned == 8


def test_a_request_without_a_choice_comes_to_max_tokens() -> None:
    lengths = OutputLengths()
    for _ in range(20):
        lengths.learn(finished(5, max_tokens=50))
        lengths.learn(finished(50, FinishReason.LENGTH, max_tokens=50, ignore_eos=True))
    assert lengths.learned == 20
    assert lengths.expected(request("b", max_tokens=50, ignore_eos=True)) == 50
    assert lengths.expected(request("b", max_tokens=50)) == 5
    assert lengths.expected(request("b", max_tokens=50, ignore_eos=True, stop=(".",))) == 5
    assert lengths.expected(request("b", max_tokens=50, ignore_eos=True, stop_token_ids=(3,))) == 5


def test_what_failed_or_was_cancelled_says_nothing() -> None:
    lengths = OutputLengths()
    for _ in range(20):
        lengths.learn(finished(1, FinishReason.ERROR, max_tokens=50))
        lengths.learn(finished(1, FinishReason.CANCELLED, max_tokens=50))
    assert lengths.learned == 0
