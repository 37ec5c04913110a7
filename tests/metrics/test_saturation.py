from __future__ import annotations

import json

import numpy as np
import pytest

from cbatch.metrics.replay import ReplayAccumulator
from cbatch.metrics.saturation import Saturation, any_ended_meanwhile, inside_at, saturation
from tests.metrics.factories import make_output, make_ref
from tests.metrics.loads import play, poisson

SEEDS = range(20)


def judge(utilisation: float, requests: int, seed: int, slots: int = 1) -> bool:
    observer = ReplayAccumulator()
    play(poisson(utilisation, requests, seed, slots=slots, steps=slots), observer, slots=slots, steps=slots)
    found = observer.summary().saturation
    assert found is not None
    return found.saturated


def test_inside_is_come_and_not_left() -> None:
    times, came, left = np.arange(6), np.array([3, 1, 1]), np.array([np.inf, 2, 4])
    assert inside_at(times, came, left).tolist() == [0, 2, 1, 2, 1, 1]


def test_a_queue_that_grows_to_the_end() -> None:
    arrivals = np.arange(16)
    found = saturation(arrivals, np.where(arrivals < 4, arrivals, np.inf))
    assert found == Saturation(True, queue_middle=4, queue_end=11, growth=7, threshold=8, arrivals=16)
    assert json.loads(json.dumps(found.to_dict()))["queue_end"] == 11


def test_the_queue_has_to_be_longer_than_chance_explains() -> None:
    arrivals = np.arange(16)
    found = saturation(arrivals, np.where(arrivals < 7, arrivals, 100))
    assert found == Saturation(False, queue_middle=1, queue_end=8, growth=7, threshold=8, arrivals=16)


def test_a_last_batch_is_no_queue_yet() -> None:
    """Ticks of ten requests, each of which gets a slot a moment later."""
    arrivals = np.repeat([0, 1_000], 10)
    found = saturation(arrivals, arrivals + 1)
    assert found == Saturation(False, queue_middle=0, queue_end=0, growth=0, threshold=2 * 20**0.5, arrivals=20)


def test_a_closed_loop_has_no_saturation_but_a_steady_state() -> None:
    """A request comes when another ends, so that the queue is never shorter than what has no slot."""
    observer = ReplayAccumulator(closed_loop=True)
    for number in range(100):
        output = make_output([20 + number], arrival_ns=max(0, number - 60), admitted_ns=10 + number)
        observer.finished(make_ref(number), output)
    found = observer.summary()
    assert found.saturation is None
    assert found.steady is not None


def test_a_long_queue_that_shrinks_is_no_saturation() -> None:
    burst = np.zeros(40, np.int64)
    arrivals = np.concatenate([burst, np.arange(1, 11)])
    left = np.concatenate([np.arange(40) // 2, np.full(10, 100)])
    found = saturation(arrivals, left)
    assert found is not None
    assert found.queue_end > found.threshold
    assert (found.growth, found.saturated) == (-4, False)


def test_few_arrivals_or_all_at_once_say_nothing() -> None:
    assert saturation(np.arange(9), np.full(9, np.inf)) is None
    assert saturation(np.zeros(50, np.int64), np.full(50, np.inf)) is None
    assert saturation(np.arange(10), np.arange(10)) is not None
    assert saturation(np.array([]), np.array([])) is None


@pytest.mark.parametrize(("requests", "slots"), [(64, 1), (64, 8), (300, 1)])
def test_a_stable_queue_is_not_flagged(requests: int, slots: int) -> None:
    assert not any(judge(utilisation, requests, seed, slots) for utilisation in (0.5, 0.8) for seed in SEEDS)


def test_overload_is_flagged() -> None:
    assert all(judge(2.0, 64, seed) for seed in SEEDS)
    assert all(judge(1.5, 300, seed) for seed in SEEDS)
    assert sum(judge(1.5, 64, seed) for seed in SEEDS) >= 15


def test_a_long_replay_is_judged_near_capacity() -> None:
    assert not judge(0.8, 3000, seed=0)
    assert not judge(0.9, 3000, seed=0)
    assert judge(1.1, 3000, seed=0)


def test_a_trace_shorter_than_its_first_request_says_nothing() -> None:
    arrivals = np.array([0, 1, 2])
    assert not any_ended_meanwhile(arrivals, np.array([2, 9, 9]))
    assert any_ended_meanwhile(arrivals, np.array([1, 9, 9]))
    assert not any_ended_meanwhile(arrivals, np.array([0, 9, 9]))  # a row that couldn't be run ends as it comes
    assert not any_ended_meanwhile(np.array([]), np.array([]))
