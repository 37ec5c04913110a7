from __future__ import annotations

import numpy as np

from cbatch.metrics.request import RequestMetrics, e2e, itl, normalized_latency, queue, slip, tpot, ttft
from cbatch.types import FinishReason
from tests.metrics.factories import make_output


def test_slip_is_enqueued_minus_arrival() -> None:
    assert slip(arrival_ns=2, enqueued_ns=5) == 3


def test_queue_counts_from_arrival() -> None:
    assert queue(arrival_ns=2, admitted_ns=9) == 7
    assert queue(arrival_ns=2, admitted_ns=None) is None


def test_ttft_counts_from_arrival_not_from_enqueueing() -> None:
    assert ttft(arrival_ns=2, first_token_ns=12) == 10
    assert ttft(arrival_ns=2, first_token_ns=None) is None


def test_a_timestamp_of_zero_is_a_timestamp() -> None:
    assert queue(arrival_ns=0, admitted_ns=0) == 0
    assert ttft(arrival_ns=0, first_token_ns=0) == 0
    assert tpot(first_token_ns=0, finished_ns=4, output_tokens=3) == 2


def test_itl_has_one_gap_less_than_tokens() -> None:
    assert itl(np.array([10, 12, 12, 17], np.int64)).tolist() == [2, 0, 5]
    assert itl(np.array([10], np.int64)).tolist() == []
    assert itl(np.array([], np.int64)).tolist() == []


def test_tpot_divides_by_the_tokens_after_the_first() -> None:
    assert tpot(first_token_ns=10, finished_ns=17, output_tokens=3) == 3.5


def test_tpot_needs_two_tokens() -> None:
    assert tpot(first_token_ns=10, finished_ns=10, output_tokens=1) is None
    assert tpot(first_token_ns=None, finished_ns=10, output_tokens=0) is None


def test_e2e_is_finished_minus_arrival() -> None:
    assert e2e(arrival_ns=2, finished_ns=17) == 15


def test_normalized_latency_divides_by_all_tokens() -> None:
    assert normalized_latency(arrival_ns=2, finished_ns=17, output_tokens=4) == 3.75
    assert normalized_latency(arrival_ns=2, finished_ns=17, output_tokens=0) is None


def test_metrics_of_an_output() -> None:
    output = make_output([12, 14, 19], arrival_ns=2, enqueued_ns=3, admitted_ns=6)
    assert RequestMetrics.of(output) == RequestMetrics(
        slip_ns=1, queue_ns=4, ttft_ns=10, tpot_ns=3.5, e2e_ns=17, normalized_latency_ns=17 / 3
    )


def test_metrics_of_a_request_that_never_ran() -> None:
    output = make_output(arrival_ns=2, enqueued_ns=3, finished_ns=8, reason=FinishReason.ERROR)
    assert RequestMetrics.of(output) == RequestMetrics(
        slip_ns=1, queue_ns=None, ttft_ns=None, tpot_ns=None, e2e_ns=6, normalized_latency_ns=None
    )
