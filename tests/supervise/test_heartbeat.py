"""What a forked process writes its parent reads; it is cheap; and it can't be written past its end."""

from __future__ import annotations

import subprocess
import sys
import time

from hypothesis import given
from hypothesis import strategies as st

from cbatch.supervise.heartbeat import MOST_ROWS, Heartbeat, Phase


def test_a_new_one_is_of_a_worker_that_has_done_nothing() -> None:
    heart = Heartbeat()
    assert (heart.beats, heart.steps, heart.phase, heart.tokenising, heart.finished) == (0, 0, Phase.STARTING, 0, 0)
    assert (heart.in_flight, heart.cleared, heart.stdin_read, heart.stdin_end) == ([], [], 0, None)


@given(st.lists(st.integers(1, 2**62), max_size=40), st.lists(st.integers(1, 2**62), max_size=40))
def test_rows_in_flight_are_those_of_the_last_step(first: list[int], second: list[int]) -> None:
    heart = Heartbeat()
    for number, rows in enumerate((first, second), 1):
        heart.step(rows)
        assert heart.in_flight == rows
        assert (heart.steps, heart.phase) == (number, Phase.RUNNING)


def test_more_rows_than_there_is_room_for() -> None:
    heart = Heartbeat()
    heart.step(range(1, 5000))
    for row in range(1, 5000):
        heart.clear(row)
    assert heart.in_flight == heart.cleared == list(range(1, MOST_ROWS + 1))


def test_a_reset_keeps_what_holds_for_each_worker() -> None:
    heart = Heartbeat()
    heart.step([1, 2])
    heart.clear(3)
    heart.tokenising = heart.finished = heart.stdin_read = heart.stdin_end = 9
    assert not heart.way_made
    heart.way_made = True
    heart.reset()
    assert (heart.stdin_end, heart.way_made) == (9, True)
    assert (heart.beats, heart.steps, heart.phase, heart.tokenising, heart.finished) == (0, 0, Phase.STARTING, 0, 0)
    assert (heart.in_flight, heart.cleared, heart.stdin_read) == ([], [], 0)


def test_it_outlives_the_process_that_wrote_it() -> None:
    code = """
import os, signal
from cbatch.supervise.heartbeat import Heartbeat
heart = Heartbeat()
pid = os.fork()
if pid == 0:
    heart.step([7, 8])
    heart.tokenising = 9
    os.kill(os.getpid(), signal.SIGKILL)
os.waitpid(pid, 0)
print(heart.in_flight, heart.tokenising, heart.steps)
"""
    process = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert process.stdout.strip() == "[7, 8] 9 1"


def test_a_step_costs_microseconds() -> None:
    heart, rows = Heartbeat(), set(range(1, 33))
    costs = []
    for _ in range(2000):
        began = time.perf_counter_ns()
        heart.step(rows)
        costs.append(time.perf_counter_ns() - began)
    assert min(costs) < 10_000
