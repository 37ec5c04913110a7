from __future__ import annotations

from dataclasses import replace

import pytest

from cbatch.report.eta import TokenEta, split_ns
from tests.report.factories import SECOND, make_output, make_request, make_step


def test_a_steps_time_is_split_as_its_calls_time_is() -> None:
    record = make_step(0, 100, prefill=64, output=8, prefill_ns=60, decode_ns=20)
    assert split_ns(record) == pytest.approx((75, 25))


def test_a_mixed_calls_time_is_split_by_tokens() -> None:
    record = make_step(0, 100, prefill=30, output=12, decodes=10, mixed_ns=80)
    assert split_ns(record) == pytest.approx((75, 25))


def test_without_call_times_tokens_decide() -> None:
    assert split_ns(make_step(0, 100, prefill=10, decodes=10)) == pytest.approx((50, 50))
    assert split_ns(make_step(0, 100)) == (0, 100)


def test_nothing_is_known_before_both_kinds_of_token_were_timed() -> None:
    eta = TokenEta()
    assert eta.seconds(0) is None
    eta.read(1, make_request(1, prompt=10, max_tokens=20))
    assert eta.seconds(0) is None
    eta.step(make_step(0, SECOND, prefill=5))
    assert eta.seconds(0) is None


def test_the_formula() -> None:
    eta = TokenEta()
    for row in (1, 2):
        eta.read(row, make_request(row, prompt=100, max_tokens=50))
    eta.step(make_step(0, 2 * SECOND, prefill=100, output=10, prefill_ns=1, decode_ns=1))
    # 100 prompt tokens left at 10 ms; nobody has finished, so 90 output tokens at 100 ms; two unread rows like these
    assert eta.seconds(0) == pytest.approx(1.0 + 9.0)
    assert eta.seconds(2) == pytest.approx(3.0 + 19.0)


def test_short_answers_first_dont_fool_it() -> None:
    eta = TokenEta()
    for row in range(10):
        eta.read(row, make_request(row, prompt=1, max_tokens=1000))
    eta.step(make_step(0, SECOND, prefill=10, prefill_ns=1))
    eta.step(make_step(0, SECOND, output=100, decode_ns=1))
    eta.finished(0, make_output(make_request(0, max_tokens=1000), tokens=10))
    # 100 tokens seen while one row finished: 100 expected of each of the nine others, not 10
    assert eta.seconds(0) == pytest.approx(9.0)


def test_max_tokens_bounds_what_is_expected() -> None:
    eta = TokenEta()
    for row in range(2):
        eta.read(row, make_request(row, prompt=1, max_tokens=20))
    eta.step(make_step(0, SECOND, prefill=2, prefill_ns=1))
    eta.step(make_step(0, SECOND, output=35, decode_ns=1))
    eta.finished(0, make_output(make_request(0, max_tokens=20), tokens=20))
    assert eta.seconds(0) == pytest.approx(5 / 35)


def test_rows_that_wont_run_cost_nothing() -> None:
    eta = TokenEta()
    for row in range(3):
        eta.read(row, make_request(row, prompt=1000 if row else 10, max_tokens=20))
    eta.step(make_step(0, SECOND, prefill=10, output=10, prefill_ns=1, decode_ns=1))
    eta.refused(1)
    eta.finished(2, make_output(make_request(2, prompt=1000), tokens=0, first_ns=None))
    eta.refused(99)  # was never read as a request
    assert eta.seconds(0) == pytest.approx(10 * 0.05)


def test_restored_tokens_are_done_and_will_be_restored() -> None:
    eta = TokenEta()
    for row in range(10):
        eta.read(row, make_request(row, prompt=500, max_tokens=1))
    eta.step(make_step(0, 5 * SECOND, prefill=500, output=1, prefill_ns=1))
    for row in range(9):
        if row:
            eta.step(make_step(0, SECOND // 5, prefill=20, output=1, prefill_ns=1, restored=480))
        eta.finished(row, make_output(make_request(row, prompt=500, max_tokens=1), tokens=1))
    # one row left: 500 of 4,500 tokens, of which 660 were computed, at 10 ms each
    assert eta.seconds(0) == pytest.approx(0.5 * 6.6 / 4.5, rel=0.01)


@pytest.mark.parametrize("given", [4, 2])
def test_samples_are_sequences_each(given: int) -> None:
    """`given`: best_of leaves the others out."""
    eta = TokenEta()
    requests = [make_request(row, prompt=1, max_tokens=100, samples=4) for row in range(10)]
    for row, request in enumerate(requests):
        eta.read(row, request)
    for row, request in enumerate(requests[:4]):
        eta.step(make_step(0, 4 * SECOND, prefill=1, output=400, decode_ns=1, restored=3))
        first, *others = [make_output(request, tokens=100) for _ in range(given)]
        eta.finished(row, replace(first, others=tuple(others)))
    assert eta.seconds(0) == pytest.approx(6 * 4, rel=0.01)


@pytest.mark.parametrize("slots", [1, 8])
def test_forced_lengths_are_predicted_within_a_tenth(slots: int) -> None:
    eta, rows, prompt, output = TokenEta(), 24, 50, 30
    for row in range(rows):
        eta.read(row, make_request(row, prompt=prompt, max_tokens=output))
    now, done = 0, 0
    predicted: dict[int, float | None] = {}
    while done < rows:
        group = range(done, min(rows, done + slots))
        began, now = now, now + prompt * len(group) * 1_000_000
        eta.step(make_step(began, now, prefill=prompt * len(group), output=len(group), prefill_ns=1))
        for _ in range(output - 1):
            eta.step(make_step(now, now + 20_000_000, output=len(group), decode_ns=1))
            now += 20_000_000
            predicted[now] = eta.seconds(0)
        for row in group:
            eta.finished(row, make_output(make_request(row, max_tokens=output), tokens=output))
        done += len(group)
    middle = min(predicted, key=lambda at: abs(at - now / 2))
    left = predicted[middle]
    assert left is not None
    assert left == pytest.approx((now - middle) / 1e9, rel=0.1)
