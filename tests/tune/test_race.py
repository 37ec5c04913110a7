"""Races on made-up machines: the fastest wins, noise doesn't, and what is far behind isn't tried again."""

from __future__ import annotations

import pytest

from cbatch.tune.race import race, runner_up, winner
from cbatch.tune.setting import Setting
from tests.tune.machines import BF16, F16, MIX, Machine

OTHERS = [Setting(kv_type, flash) for kv_type in ("f32", "q8_0", "q4_0") for flash in ("on", "off")]


def always() -> bool:
    return True


def test_the_fastest_wins() -> None:
    machine = Machine({BF16: 1.0, F16: 1.4, **dict.fromkeys(OTHERS, 1.2), OTHERS[3]: 0.8})
    entrants = race([BF16, F16, *OTHERS], machine.trial, MIX, time_left=always)
    assert winner(entrants, MIX).setting == OTHERS[3]
    assert entrants[0].ratio == 1
    assert winner(entrants, MIX).ratio == pytest.approx(1 / 0.8)


def test_slow_ones_are_given_up_early() -> None:
    machine = Machine({BF16: 1.0, F16: 2.0, **dict.fromkeys(OTHERS, 1.05)})
    race([BF16, F16, *OTHERS], machine.trial, MIX, time_left=always)
    assert machine.tried.count(F16) == 1
    assert machine.tried.count(BF16) == 3
    assert len(machine.tried) == 3 + 6 + 1 + 6 + 3


@pytest.mark.parametrize("seed", range(8))
def test_hiccups_neither_win_nor_lose(seed: int) -> None:
    machine = Machine({BF16: 1.0, F16: 0.9, **dict.fromkeys(OTHERS, 1.0)}, hiccups=0.15, seed=seed)
    entrants = race([BF16, F16, *OTHERS], machine.trial, MIX, time_left=always)
    assert (runner_up(entrants, MIX) or entrants[0]).setting == F16
    assert winner(entrants, MIX).setting in (BF16, F16)


def test_a_machine_that_slows_down_favours_nobody() -> None:
    machine = Machine({BF16: 1.0, F16: 1.0, **dict.fromkeys(OTHERS, 1.0)}, drift=1.004)
    assert winner(race([BF16, F16, *OTHERS], machine.trial, MIX, time_left=always), MIX).setting == BF16


@pytest.mark.parametrize("seed", range(5))
def test_noise_doesnt_win(seed: int) -> None:
    machine = Machine(dict.fromkeys([BF16, F16, *OTHERS], 1.0), noise=0.01, seed=seed)
    assert winner(race([BF16, F16, *OTHERS], machine.trial, MIX, time_left=always), MIX).setting == BF16


def test_what_cant_be_made_says_why_and_loses() -> None:
    machine = Machine({BF16: 1.0}, refuses="f16")
    entrants = race([BF16, F16], machine.trial, MIX, time_left=always)
    assert entrants[1].refused == "this model can't"
    assert entrants[1].ratio is None
    assert winner(entrants, MIX).setting == BF16


def test_without_time_nothing_is_tried() -> None:
    machine = Machine({BF16: 1.0, F16: 0.5})
    entrants = race([BF16, F16], machine.trial, MIX, time_left=lambda: len(machine.tried) < 1)
    assert [entrant.ratio for entrant in entrants] == [1.0, None]
    assert winner(entrants, MIX).setting == BF16


@pytest.mark.parametrize(("factor", "found"), [(0.9, F16), (0.98, F16), (1.02, None), (1.3, None)])
def test_what_may_be_faster_is_runner_up(factor: float, found: Setting | None) -> None:
    machine = Machine({BF16: 1.0, F16: factor, **dict.fromkeys(OTHERS, 1.4)})
    second = runner_up(race([BF16, F16, *OTHERS], machine.trial, MIX, time_left=always), MIX)
    assert (None if second is None else second.setting) == found


def test_the_noisier_the_slower_may_a_runner_up_seem() -> None:
    machine = Machine({BF16: 1.0, F16: 1.05}, noise=0.1)
    assert runner_up(race([BF16, F16], machine.trial, MIX, time_left=always), MIX) is not None
