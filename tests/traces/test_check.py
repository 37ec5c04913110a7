from __future__ import annotations

import pytest

from cbatch.traces.check import RequestCheck
from cbatch.traces.trace import TraceRequest


@pytest.mark.parametrize("name", ["prompt", "session_id", "tenant"])
def test_text_that_no_file_can_hold(name: str) -> None:
    fields = {"prompt": "x"} | {name: "a\ud800"}
    fault = RequestCheck().fault(TraceRequest(0, **fields))  # type: ignore[arg-type]
    assert fault == f"{name} holds half a surrogate pair, which UTF-8 can't hold: replace it with U+FFFD"


def test_equal_arrivals_are_in_order() -> None:
    check = RequestCheck()
    assert check.fault(TraceRequest(5, prompt="é")) is None
    assert check.fault(TraceRequest(5, prompt_tokens=1)) is None
    assert check.fault(TraceRequest(4, prompt_tokens=1)) is not None
