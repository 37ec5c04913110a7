from __future__ import annotations

import time

from cbatch.report.ticker import Ticker


def test_it_ticks_from_start_to_stop() -> None:
    ticks: list[int] = []
    ticker = Ticker("t", 0.001, lambda: ticks.append(1))
    time.sleep(0.01)
    assert ticks == []
    ticker.start()
    while len(ticks) < 3:
        time.sleep(0.001)
    ticker.stop()
    done = len(ticks)
    time.sleep(0.01)
    assert len(ticks) == done


def test_a_terminal_that_is_gone_ends_it_quietly() -> None:
    tries = []

    def refuse() -> None:
        tries.append(1)
        raise OSError("gone")

    ticker = Ticker("t", 0.001, refuse)
    ticker.start()
    time.sleep(0.05)
    ticker.stop()
    assert tries == [1]
