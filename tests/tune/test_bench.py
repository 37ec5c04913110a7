"""Benches on the tiny model: what they say was computed is what was asked for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import AbstractContextManager
from dataclasses import replace
from typing import Any

import pytest

from cbatch.clock import WallClock
from cbatch.config import ContextConfig, padded
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.sim.costs import StepCostModel
from cbatch.sim.measured import MeasuredCall, MeasuredStep
from cbatch.sim.ubatches import Ubatch
from cbatch.tune.bench import Bench, settled
from cbatch.tune.loads import Decodes, Prompts, Tails
from cbatch.tune.mix import Mix, made_up, speeds_of
from cbatch.tune.setting import Setting
from cbatch.tune.survey import Stand, stands, survey
from cbatch.tune.workbench import Workbench
from tests.tune.machines import BF16, SimulatedWorkbench, costs


def opened(model: Model, slots: int, cells: int, **setting: Any) -> AbstractContextManager[Bench]:
    workbench = Workbench(model, Tokenizer(model), ContextConfig(), lambda config: config, WallClock())
    return workbench.bench(Setting("bf16", "on", threads=1, **setting), slots, cells)


@pytest.fixture(scope="module", params=["split", "unified"])
def bench(tiny: Model, request: pytest.FixtureRequest) -> Iterator[Bench]:
    with opened(tiny, 8, 256, kv_mode=request.param) as made:
        yield made


def test_prompts_are_computed_whole(bench: Bench) -> None:
    steps = bench.run(Prompts((40, 8, 100)))
    ubatches = [ubatch for step in steps for call in step.calls for ubatch in call.ubatches]
    assert sum(ubatch.tokens for ubatch in ubatches) == 148
    assert sum(ubatch.outputs for ubatch in ubatches) == 3
    assert sum(step.sampled for step in steps) == 3
    assert all(call.ns > 0 for step in steps for call in step.calls)


def test_decodes_are_all_at_once(bench: Bench) -> None:
    steps = bench.run(Decodes(running=8, context=50, steps=5))
    full = [step for step in steps if step.sampled == 8]
    assert len(full) >= 5
    assert all(step.calls[0].ubatches[0].tokens == 8 for step in full)
    assert sum(step.sampled for step in steps) == 8 * 6
    assert sum(step.restored_tokens for step in steps) == 0 or any(step.restore_ns for step in steps)


def test_rows_may_have_any_ids(bench: Bench) -> None:
    rows = [replace(row, id=f"{row.id}#{row.id}") for row in made_up([20, 5], [3, 4], 100)]
    steps = bench.run_rows(rows)
    assert sum(step.sampled for step in steps) == 7
    assert sum(ubatch.tokens for step in steps for call in step.calls for ubatch in call.ubatches) == 25 + 5


def test_speeds(bench: Bench) -> None:
    speeds = speeds_of(bench.run(Prompts((64,) * 4)), bench.run(Decodes(8, 30, 4)), 8)
    assert 0 < speeds.prompt_ns < 1e9
    assert speeds.decode_tokens_per_s > speeds.running * 1e9 / 1e9


def test_a_survey_gives_a_cost_model(tiny: Model) -> None:
    found = survey(
        stands(Mix((20, 40, 60), 16.0, 48), 8, 512, tokens=1024),
        lambda slots, cells: opened(tiny, slots, cells),
        range(2),
    )
    assert found.model.knots[-1] >= 64
    assert found.model.weights_ns[-1] > found.model.weights_ns[0] >= 0
    assert found.error.steps > 10


@pytest.mark.parametrize("cells", [1024, 4096, 8192])
def test_a_survey_needs_no_more_memory_than_there_is(cells: int) -> None:
    def room(slots: int, each: int) -> int:
        return min(slots, cells // padded(each))

    most = room(64, 190)
    found = stands(Mix((128,), 64.0, 160), most, 512, tokens=2000, room=room)
    for stand in found:
        assert stand.slots * padded(stand.cells) <= cells
    assert found[0].slots == most


@pytest.mark.parametrize("slots", [1, 16])
def test_a_survey_goes_no_further_than_the_model_s_positions(slots: int) -> None:
    for longest in (400, 1024):
        found = stands(Mix((256,), 128.0, 320), slots, 512, tokens=4096, longest=longest)
        assert max(stand.cells for stand in found) <= longest
        assert max(stand.cells for stand in found) > 390


def test_a_survey_in_a_fast_minute_is_scaled_to_the_usual_one(tiny: Model) -> None:
    def surveyed(earlier: list[MeasuredStep]) -> StepCostModel:
        loads = Stand((Prompts((16, 16)), Prompts((64,)), Decodes(4, 30, 12), Decodes(1, 30, 12)))
        workbench = SimulatedWorkbench.of(tiny, {}, costs())
        return survey([loads], lambda slots, cells: workbench.bench(BF16, slots, cells), range(1), earlier).model

    alone = surveyed([])
    call = (Ubatch(16, 2, 0, 300, 0, 0),)
    slow = MeasuredStep((MeasuredCall(call, round(2e9)),))
    both = surveyed([slow])
    assert both.call_ns(call) > 2 * alone.call_ns(call)
    assert both.thin_ns / alone.thin_ns == pytest.approx(both.call_ns(call) / alone.call_ns(call))


def step(ns: int, tokens: int = 4) -> MeasuredStep:
    return MeasuredStep((MeasuredCall((Ubatch(tokens, 0, 0, 0, 0, 0),), ns),), running=1, overhead_ns=ns // 10)


def test_repetitions_take_their_middle_times() -> None:
    found = settled([[step(100), step(10)], [step(900), step(20)], [step(110), step(30)]])
    assert [each.calls_ns for each in found] == [110, 20]
    assert [each.overhead_ns for each in found] == [11, 2]


def test_repetitions_that_went_differently_stay_as_they_are() -> None:
    found = settled([[step(100)], [step(900, tokens=5)]])
    assert [each.calls_ns for each in found] == [100, 900]


def test_tails_follow_a_prefix_that_is_computed_once(bench: Bench) -> None:
    steps = bench.run(Tails(3, 40, 8, 2))
    ubatches = [ubatch for step in steps for call in step.calls for ubatch in call.ubatches]
    assert [ubatch.tokens for ubatch in ubatches] == [40, 3 * 8, 3, 3]
    assert ubatches[1].thin == 3 * (8 * 40 + 8 * 9 // 2)
    assert sum(step.restored_tokens for step in steps) >= 2 * 40
