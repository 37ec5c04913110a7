from __future__ import annotations

import threading
import time

import pytest

from cbatch.clock import VirtualClock
from cbatch.report.progress import LAST_ANSWERS, LAST_REQUESTS, Progress
from cbatch.types import FinishReason, Job
from tests.report.factories import (
    SECOND,
    SettableClock,
    make_fault,
    make_job,
    make_output,
    make_ref,
    make_request,
    make_step,
    make_view,
)


def test_before_anything_happened() -> None:
    figures = Progress(VirtualClock(5)).figures()
    assert (figures.rows_done, figures.rows_total, figures.eta_s, figures.engine) == (0, None, None, None)
    assert figures.output.history == ()
    assert figures.ttft.p50_ns is None


def test_reading_hands_jobs_through_and_knows_the_total_at_the_end() -> None:
    progress = Progress(VirtualClock())
    jobs: list[Job] = [make_job(1), make_fault(2), make_job(3)]
    reading = progress.reading(jobs)
    assert next(reading) is jobs[0]
    assert progress.figures().rows_total is None
    assert list(reading) == jobs[1:]
    assert progress.figures().rows_total == 3


def test_rows_are_counted_by_how_they_ended() -> None:
    progress = Progress(VirtualClock())
    progress.fault(make_fault(1, "not JSON"))
    progress.finished(make_ref(2), make_output(make_request(2)))
    progress.finished(make_ref(3), make_output(make_request(3), reason=FinishReason.ERROR, error="no KV slot"))
    progress.finished(make_ref(4), make_output(make_request(4), reason=FinishReason.CANCELLED))
    figures = progress.figures()
    assert (figures.rows_ok, figures.rows_failed, figures.rows_done) == (1, 2, 3)
    assert figures.errors == (("row-1", "not JSON"), ("row-3", "no KV slot"))
    assert figures.answers == (("row-2", "an answer"),)


def test_only_the_last_answers_are_kept_and_only_their_beginning() -> None:
    progress = Progress(VirtualClock())
    for number in range(20):
        progress.finished(make_ref(number), make_output(make_request(number), text=f"{number} " + "x" * 10_000))
    answers = progress.figures().answers
    assert [row for row, _ in answers] == [f"row-{n}" for n in range(20 - LAST_ANSWERS, 20)]
    assert max(len(text) for _, text in answers) <= 500


def test_rates_count_from_the_first_step_and_elapsed_from_the_start() -> None:
    clock = VirtualClock()
    progress = Progress(clock)
    clock.advance(10 * SECOND)
    progress.step(make_step(10 * SECOND, 12 * SECOND, prefill=300, output=20), make_view)
    clock.advance(2 * SECOND)
    figures = progress.figures()
    assert figures.elapsed_s == 12
    assert figures.output.mean == pytest.approx(10)
    assert figures.output.history == pytest.approx((10, 10))
    assert figures.prefill.now == pytest.approx(150)


def test_a_rate_falls_to_nothing_once_the_engine_is_silent_for_long() -> None:
    clock = VirtualClock()
    progress = Progress(clock)
    progress.step(make_step(0, SECOND, output=20), make_view)
    clock.advance(5 * SECOND)
    assert progress.figures().output.now == pytest.approx(20)
    clock.advance(20 * SECOND)
    assert progress.figures().output.now == 0


def test_an_idle_engine_makes_nothing() -> None:
    clock = VirtualClock()
    progress = Progress(clock)
    progress.step(make_step(0, SECOND, output=20, finished=1), lambda: make_view(busy=0, waiting=0))
    clock.advance(3 * SECOND)
    assert progress.figures().output.history == (20, 0, 0)


def test_it_can_begin_anew_on_a_clock_that_was_set_back() -> None:
    clock = SettableClock(500 * SECOND)
    progress = Progress(clock)
    clock.ns = 0
    progress.begin()
    clock.ns = 4 * SECOND
    progress.step(make_step(2 * SECOND, 4 * SECOND, output=20), make_view)
    figures = progress.figures()
    assert figures.elapsed_s == 4
    assert figures.output.history == pytest.approx((0, 0, 10, 10))
    assert figures.engine is not None


def test_latencies_are_of_the_last_requests() -> None:
    progress = Progress(VirtualClock())
    for number in range(LAST_REQUESTS + 50):
        first = SECOND if number < 50 else 3 * SECOND
        output = make_output(make_request(number), tokens=11, first_ns=first, end_ns=first + SECOND)
        progress.finished(make_ref(number), output)
    figures = progress.figures()
    assert figures.ttft.count == LAST_REQUESTS
    assert (figures.ttft.p50_ns, figures.ttft.mean_ns) == (3 * SECOND, 3 * SECOND)
    assert figures.tpot.p99_ns == pytest.approx(SECOND / 10)


def test_the_engine_is_looked_at_four_times_a_second_and_when_it_has_drained() -> None:
    looks = []
    progress = Progress(VirtualClock())
    for step in range(100):
        begin = step * SECOND // 100
        last = step == 99
        record = make_step(begin, begin + SECOND // 100, output=1, finished=1 if last else 0)
        progress.step(record, lambda: looks.append(1) or make_view())  # type: ignore[func-returns-value]
    assert len(looks) == 5


def test_the_eta_needs_the_total_and_ends_with_stopping() -> None:
    progress = Progress(VirtualClock())
    reading = progress.reading([make_job(1), make_job(2)])
    next(reading)
    progress.step(make_step(0, SECOND, prefill=10, output=1, prefill_ns=1, decode_ns=1), make_view)
    assert progress.figures().eta_s is None
    progress.set_total(2)
    assert progress.figures().eta_s == pytest.approx(19 * 0.5 + 10 * 0.05 + 20 * 0.5)
    list(reading)
    assert progress.figures().eta_s == pytest.approx(39 * 0.5 + 10 * 0.05)
    progress.stopping()
    assert progress.figures().eta_s is None
    assert progress.figures().stopping


def test_figures_may_be_asked_for_while_the_engine_writes() -> None:
    progress, over = Progress(VirtualClock()), threading.Event()

    def write() -> None:
        step = 0
        while not over.is_set():
            progress.step(make_step(step * SECOND, (step + 1) * SECOND, output=1), make_view)
            progress.finished(make_ref(step), make_output(make_request(step)))
            step += 1

    thread = threading.Thread(target=write)
    thread.start()
    try:
        for _ in range(200):
            progress.figures()
    finally:
        over.set()
        thread.join()


def test_a_step_costs_little() -> None:
    progress, view = Progress(VirtualClock()), make_view(256)
    records = [make_step(step * SECOND // 50, (step + 1) * SECOND // 50, output=32) for step in range(2000)]
    start = time.perf_counter()
    for record in records:
        progress.step(record, lambda: view)
    assert (time.perf_counter() - start) / len(records) < 100e-6  # takes about 5 µs
