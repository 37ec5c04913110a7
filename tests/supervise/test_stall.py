"""How long a worker was still, in made-up time."""

from __future__ import annotations

from cbatch.supervise.heartbeat import Heartbeat, Phase
from cbatch.supervise.stall import StallTimer


def test_a_loop_that_goes_on_never_stalls() -> None:
    heart = Heartbeat()
    timer = StallTimer(heart, 1, 0)
    for now in range(1, 100):
        heart.step([1])
        assert timer.still_s(now) == 0


def test_time_without_a_beat_counts_from_the_last_one() -> None:
    heart = Heartbeat()
    timer = StallTimer(heart, 1, 0)
    heart.step([1])
    assert [timer.still_s(now) for now in (10, 11, 12, 13)] == [0, 1, 2, 3]
    heart.beat()
    assert [timer.still_s(now) for now in (14, 15)] == [0, 1]


def test_loading_and_ending_may_take_any_time() -> None:
    heart = Heartbeat()
    timer = StallTimer(heart, 1, 0)
    assert [timer.still_s(now) for now in (1, 2, 3)] == [0, 0, 0]
    heart.step([1])
    heart.phase = Phase.ENDING
    assert [timer.still_s(now) for now in (4, 5, 6)] == [0, 0, 0]


def test_a_row_may_not_be_tokenised_for_ever_though_the_loop_goes_on() -> None:
    heart = Heartbeat()
    timer = StallTimer(heart, 1, 0)
    heart.tokenising = 5
    seen = []
    for now in (1, 2, 3):
        heart.beat()
        seen.append(timer.still_s(now))
    assert seen == [0, 1, 2]
    heart.tokenising = 6
    assert timer.still_s(4) == 0


def test_a_gap_in_looking_is_a_suspension_and_not_a_stall() -> None:
    heart = Heartbeat()
    timer = StallTimer(heart, 1, 0)
    heart.step([1])
    assert [timer.still_s(now) for now in (1, 2, 3, 4000, 4001)] == [0, 1, 2, 0, 1]


def test_a_worker_that_is_known_to_be_stopped_has_time() -> None:
    heart = Heartbeat()
    timer = StallTimer(heart, 1, 0)
    heart.step([1])
    assert [timer.still_s(now) for now in (1, 2)] == [0, 1]
    timer.restart(3)
    assert timer.still_s(4) == 1
