from __future__ import annotations

import pytest

from cbatch.errors import UsageError
from cbatch.metrics import Objectives, parse_objectives
from cbatch.types import FinishReason
from tests.metrics.factories import make_output

ALL = {"ttft": 10, "tpot": 3, "e2e": 16, "queue": 4}
DONE = make_output([12, 15, 18], arrival_ns=2, admitted_ns=6)  # meets each of ALL to the nanosecond


def test_a_request_meets_limits_that_it_reaches_exactly() -> None:
    assert Objectives(ALL).met(DONE)


@pytest.mark.parametrize("name", ALL)
def test_one_limit_exceeded_is_a_miss(name: str) -> None:
    assert not Objectives({**ALL, name: ALL[name] - 0.5}).met(DONE)


def test_no_limit_is_met_by_what_completes() -> None:
    assert Objectives().met(DONE)
    assert not Objectives().met(make_output([1], reason=FinishReason.ERROR))


@pytest.mark.parametrize("reason", [FinishReason.ERROR, FinishReason.CANCELLED])
def test_a_request_that_failed_or_did_not_finish_misses(reason: FinishReason) -> None:
    assert not Objectives({"ttft": 100}).met(make_output([12, 15], reason=reason))


def test_a_missing_metric_misses() -> None:
    one_token = make_output([5])
    assert Objectives({"ttft": 5}).met(one_token)
    assert not Objectives({"tpot": 5}).met(one_token)


def test_limits_are_given_in_milliseconds_and_kept_in_nanoseconds() -> None:
    found = parse_objectives(["ttft:500", "tpot:12.5 e2e:2000,queue:1"])
    assert found.limits_ns == {"ttft": 500e6, "tpot": 12.5e6, "e2e": 2000e6, "queue": 1e6}
    assert found.to_dict() == {"ttft_ns": 500e6, "tpot_ns": 12.5e6, "e2e_ns": 2000e6, "queue_ns": 1e6}
    assert parse_objectives([]) == Objectives()


@pytest.mark.parametrize("part", ["itl:5", "ttft=5", "500", ":500"])
def test_an_unknown_metric_is_a_usage_error(part: str) -> None:
    with pytest.raises(UsageError, match=f"--goodput has '{part}': give ttft, tpot, e2e, queue with milliseconds"):
        parse_objectives([part])


@pytest.mark.parametrize("part", ["ttft", "ttft:", "ttft:fast", "ttft:0", "ttft:-1", "ttft:inf", "ttft:nan"])
def test_a_limit_that_is_no_time_is_a_usage_error(part: str) -> None:
    with pytest.raises(UsageError, match=f"--goodput has '{part}': give milliseconds above 0 after the colon"):
        parse_objectives([part])


def test_two_limits_for_a_metric_are_a_usage_error() -> None:
    with pytest.raises(UsageError, match="--goodput has two limits for ttft: leave one out"):
        parse_objectives(["ttft:1 tpot:2", "ttft:3"])
