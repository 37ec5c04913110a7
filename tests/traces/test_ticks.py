from __future__ import annotations

import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.traces.ticks import MIN_TICK_NS, Ticks

MS = 10**6


def ticks_of(arrivals: list[int]) -> Ticks:
    ticks = Ticks()
    for arrival_ns in arrivals:
        ticks.see(arrival_ns)
    return ticks


@given(st.integers(100, 60_000), st.lists(st.integers(0, 5), min_size=30, max_size=60))
def test_a_grid_is_found_whatever_ticks_are_empty(tick_ms: int, steps: list[int]) -> None:
    steps = [1, *steps, *[1] * 8]
    arrivals = [sum(steps[: n + 1]) * tick_ms * MS for n in range(len(steps))]
    ticks = ticks_of(arrivals)
    assert ticks.tick_ns() == pytest.approx(tick_ms * MS)
    assert (ticks.requests, ticks.times) == (len(arrivals), len(set(arrivals)))


def test_ticks_rounded_to_a_millisecond_are_found() -> None:
    """As in Mooncake's conversation trace: 0, 3000, 5999, 9000, ..."""
    arrivals = [round(n * 2999.985) * MS for n in range(70) for _ in range(9)]
    tick = ticks_of(arrivals).tick_ns()
    assert tick == pytest.approx(3000 * MS, rel=1e-4)


def test_the_grid_needs_neither_order_nor_an_origin_on_it() -> None:
    assert ticks_of([7 * MS + n * 500 * MS for n in (3, 1, 2, 5, 4, 9, 8, 6, 7)]).tick_ns() == 500 * MS


@pytest.mark.parametrize("seed", range(5))
def test_a_poisson_process_has_no_grid(seed: int) -> None:
    draw, now, arrivals = random.Random(seed), 0.0, []
    for _ in range(2000):
        now += draw.expovariate(0.01)
        arrivals.append(int(now) * 1000 * MS)  # whole seconds, a hundred apart: coarse, but no coarser than that
    tick = ticks_of(arrivals).tick_ns()
    assert tick is None or tick == pytest.approx(1000 * MS)
    assert ticks_of([arrival + n % 7 * 31 * MS for n, arrival in enumerate(arrivals)]).tick_ns() is None


def test_few_times_and_fine_grids_are_not_ticks() -> None:
    assert ticks_of([n * 3000 * MS for n in range(7)]).tick_ns() is None
    assert ticks_of([n * (MIN_TICK_NS - 1) for n in range(70)]).tick_ns() is None
    assert ticks_of([]).tick_ns() is None
    assert ticks_of([5] * 70).tick_ns() is None


def test_memory_is_bounded() -> None:
    ticks = ticks_of([n * n * MIN_TICK_NS for n in range(10_100)])
    assert ticks.tick_ns() is None
    assert ticks._gaps is None
