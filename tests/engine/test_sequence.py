from __future__ import annotations

import pytest

from cbatch.engine.sequence import Sequence
from cbatch.types import FinishReason
from tests.engine.factories import request


@pytest.mark.parametrize(
    ("last", "stopped", "reason", "answer"),
    [
        (9, False, FinishReason.STOP, [5]),
        (8, False, FinishReason.STOP, [5]),
        (7, True, FinishReason.STOP, [5, 7]),
        (7, False, None, [5, 7]),
    ],
)
def test_the_token_that_ends_it(last: int, stopped: bool, reason: FinishReason | None, answer: list[int]) -> None:
    seq = Sequence(request("a", max_tokens=3, end_tokens=frozenset({9}), stop_token_ids=(8,)), 0)
    assert seq.answer == []
    seq.append(5, 100)
    assert seq.finish_reason is None
    seq.append(last, 200, stopped=stopped)
    assert seq.finish_reason is reason
    assert seq.finished_ns == (None if reason is None else 200)
    assert seq.output == [5, last]
    assert seq.answer == answer


def test_a_padded_sequence_stays_as_it_ended() -> None:
    seq = Sequence(request("a", max_tokens=2, end_tokens=frozenset({9})), 0)
    for at_ns, token in enumerate((5, 6, 9)):
        seq.append(token, at_ns)
    assert (seq.finish_reason, seq.finished_ns) == (FinishReason.LENGTH, 1)


def test_it_decodes_once_all_but_its_last_token_is_computed() -> None:
    seq = Sequence(request("a", prompt=1), 0)
    assert seq.num_pending == 1
    assert not seq.is_decoding  # what is pending is its prompt
    seq.append(5, 0)
    assert not seq.is_decoding
    seq.num_computed = 1
    assert seq.is_decoding
    assert (seq.num_tokens, seq.num_pending) == (2, 1)
