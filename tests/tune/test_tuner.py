"""Tuning from start to end on made-up machines, in virtual time: what is chosen, and how long it takes."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from cbatch.config import SchedulerConfig
from cbatch.errors import UsageError
from cbatch.llama.model import Model
from cbatch.metrics import parse_objectives
from cbatch.sim.costs import StepCostModel
from cbatch.tune import tuner
from cbatch.tune.budget import Budget
from cbatch.tune.goal import Goal
from cbatch.tune.mix import made_up
from cbatch.tune.result import Tuning
from cbatch.tune.setting import Setting, built_in
from cbatch.tune.tuner import Tuner
from tests.tune.machines import F16, SimulatedWorkbench, costs

ROWS = made_up([60] * 96, [30] * 96, 200)
FEW_SLOTS = replace(costs(), weights_ns=(5e6, 1e7, 2e7, 4e7, 4.1e7, 2.4e8))
"""64 at once take hardly longer than 32."""


def tuned(
    model: Model,
    costs_of: Mapping[Setting, StepCostModel],
    *,
    other: StepCostModel | None = None,
    budget_s: float = 60.0,
    hear: Callable[[str], object] = str,
    **goal: Any,
) -> tuple[Tuning, list[str]]:
    said: list[str] = []

    def say(line: str) -> None:
        said.append(line)
        hear(line)

    workbench = SimulatedWorkbench.of(model, costs_of, costs(1.3) if other is None else other)
    asked = Goal(**{"requests": ROWS, "made_up": True, **goal})
    found, _ = Tuner(workbench, asked, SchedulerConfig(), Budget(workbench.clock, budget_s), say).tune()
    assert found.seconds == workbench.clock.now_ns() / 1e9
    return found, said


def test_the_fastest_setting_is_confirmed_and_taken(tiny: Model) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs(), F16: costs(0.8)})
    assert (found.setting, found.slots.slots, found.is_default) == (F16, 32, False)
    (confirmation,) = found.confirmations
    assert confirmation.holds
    assert confirmation.ratio == pytest.approx(1.25, rel=0.02)
    assert found.gain == pytest.approx(1.0)
    assert found.error.mean < 0.1


def test_cbatch_s_own_rules_are_kept_where_nothing_is_faster(tiny: Model) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs(), F16: costs(1.2)})
    assert (found.setting, found.is_default) == (built_in(tiny), True)
    assert found.confirmations == ()
    assert found.gain == pytest.approx(1.2, rel=0.02)


def test_what_isnt_faster_on_whole_rows_isnt_taken(tiny: Model) -> None:
    """Trials say that f16 is faster; once whole rows are run, it isn't any more."""
    costs_of = {built_in(tiny): costs(), F16: costs(0.8)}

    def change(line: str) -> None:
        if "in turns" in line:
            costs_of[F16] = costs(1.1)

    found, said = tuned(tiny, costs_of, hear=change)
    assert (found.setting, found.is_default) == (built_in(tiny), True)
    assert not found.confirmations[0].holds
    assert found.gain == pytest.approx(1.1, rel=0.02)
    assert sum("measuring what steps cost" in line for line in said) == 1


@pytest.mark.parametrize(("factor", "taken"), [(0.975, True), (0.99, False)])
def test_what_may_be_noise_in_trials_is_seen_on_whole_rows(tiny: Model, factor: float, taken: bool) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs(), F16: costs(factor)})
    assert (found.setting == F16) is taken
    assert [each.holds for each in found.confirmations] == [taken]


def test_more_slots_are_taken_where_they_are_confirmed(tiny: Model) -> None:
    found, said = tuned(tiny, {built_in(tiny): FEW_SLOTS})
    assert found.setting == built_in(tiny)
    assert found.slots.slots == 48
    (confirmation,) = found.confirmations
    assert (confirmation.slots, confirmation.usual_slots, confirmation.holds) == (48, 32, True)
    assert "48 slots: in turns with 32" in said


@pytest.mark.parametrize("budget_s", [10.0, 120.0])
@pytest.mark.parametrize("factor", [0.05, 1.0, 3.0])
@pytest.mark.parametrize("best", ["default", "f16", "slots"])
def test_it_stays_within_its_budget(tiny: Model, budget_s: float, factor: float, best: str) -> None:
    usual = {"default": costs(factor), "f16": costs(1.2 * factor), "slots": replace(FEW_SLOTS)}[best]
    found, _ = tuned(tiny, {built_in(tiny): usual, F16: costs(factor)}, other=costs(1.3 * factor), budget_s=budget_s)
    assert found.seconds < 1.05 * budget_s


def test_a_model_that_is_too_slow_for_its_budget_is_told_of(tiny: Model) -> None:
    found, said = tuned(tiny, {built_in(tiny): costs(30), F16: costs(20)}, other=costs(40), budget_s=20.0)
    assert found.is_default
    assert any("steps are slow here" in line for line in said)


@pytest.mark.parametrize(("factor", "taken"), [(0.9, False), (0.7, True)])
def test_without_time_for_whole_rows_only_what_is_far_faster_is_taken(
    tiny: Model, factor: float, taken: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tuner, "rows_in_turns", lambda *_: [])
    found, _ = tuned(tiny, {built_in(tiny): costs(), F16: costs(factor)})
    assert (found.setting == F16) is taken
    assert ("not taken" in found.notes[0]) is not taken


def test_slots_of_a_job_of_few_rows_say_nothing_of_others(tiny: Model) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs()}, requests=ROWS[:6], all_rows=True)
    assert (found.slots.slots, found.usual_slots, found.few_rows) == (6, 6, True)
    found, _ = tuned(tiny, {built_in(tiny): costs()}, requests=ROWS[:40], all_rows=True)
    assert not found.few_rows


def test_steps_within_a_stall(tiny: Model) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs()}, most_stall_ns=100e6)
    assert found.slots.batched_tokens is not None
    assert found.confirmations == ()
    assert found.gain is None
    with pytest.raises(UsageError, match=r"--max-stall 0\.01 ms: raise it"):
        tuned(tiny, {built_in(tiny): costs()}, most_stall_ns=1e4)


@pytest.mark.parametrize("factor", [0.05, 3.0, 30.0])
def test_a_single_row_is_enough(tiny: Model, factor: float) -> None:
    found, _ = tuned(tiny, {}, other=costs(factor), requests=ROWS[:1], all_rows=True, budget_s=10.0)
    assert found.slots.slots == 1
    assert found.error.steps > 0


def test_limits_that_nothing_keeps_leave_the_slots_as_they_are_and_are_told_of(tiny: Model) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs()}, objectives=parse_objectives(["ttft:0.1"]), rate=50.0)
    assert found.slots.slots > 8
    assert any("no number of slots keeps requests within the limits at 50 requests/s" in note for note in found.notes)


def test_goodput(tiny: Model) -> None:
    found, _ = tuned(tiny, {built_in(tiny): costs()}, objectives=parse_objectives(["tpot:30"]), rate=3.0)
    most = max(option.attainment or 0 for option in found.slot_options)
    assert (found.slots.attainment or 0) >= most - 0.01
    assert found.slots.slots < 32
