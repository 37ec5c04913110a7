from __future__ import annotations

import pytest

from cbatch.metrics.objectives import Objectives
from cbatch.report.attainment import RECENT, Attainment, AttainmentCounter
from cbatch.types import FinishReason, RequestOutput
from tests.report.factories import SECOND, make_output, make_request

BOTH = Objectives({"ttft": SECOND, "tpot": SECOND / 10})


def answered(ttft_s: float, tpot_s: float) -> RequestOutput:
    """11 tokens."""
    first = int(ttft_s * SECOND)
    return make_output(make_request(1), tokens=11, first_ns=first, end_ns=first + int(10 * tpot_s * SECOND))


def test_all_together_and_each() -> None:
    counter = AttainmentCounter(BOTH)
    for ttft_s, tpot_s in ((1, 0.1), (2, 0.1), (1, 0.2), (1, 0.2)):
        counter.add(answered(ttft_s, tpot_s))
    assert counter.attainments() == (
        Attainment("all", 4, 0.25, 0.25),
        Attainment("ttft 1000 ms", 4, 0.75, 0.75),
        Attainment("tpot 100 ms", 4, 0.5, 0.5),
    )


def test_one_objective_is_all() -> None:
    counter = AttainmentCounter(Objectives({"e2e": 2.5e6}))
    assert counter.attainments() == (Attainment("e2e 2.5 ms", 0, None, None),)


def test_without_objectives_nothing_is_counted() -> None:
    counter = AttainmentCounter(Objectives())
    counter.add(answered(1, 0.1))
    assert counter.attainments() == ()


def test_what_failed_or_never_ran_misses() -> None:
    counter = AttainmentCounter(BOTH)
    counter.add(None)
    counter.add(make_output(make_request(1), tokens=2, reason=FinishReason.ERROR))
    counter.add(make_output(make_request(1), tokens=2, reason=FinishReason.CANCELLED))
    counter.add(answered(0.5, 0.01))
    assert [each.share for each in counter.attainments()] == [0.25] * 3


def test_the_recent_share_forgets() -> None:
    counter = AttainmentCounter(BOTH)
    for number in range(RECENT + 50):
        counter.add(answered(0.1, 0.01) if number < 75 else None)
    found = counter.attainments()[0]
    assert found.share == pytest.approx(0.5)
    assert found.recent == pytest.approx(0.25)
