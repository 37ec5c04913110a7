"""Quick calibrations in virtual time, on machines whose step costs are known."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from typing import Any, cast

import pytest

from cbatch.clock import VirtualClock
from cbatch.config import ContextConfig, padded
from cbatch.errors import EngineError, UsageError
from cbatch.sim.costs import StepCostModel
from cbatch.sim.runner import SimulatedRunner
from cbatch.tune.bench import Bench
from cbatch.tune.mix import Mix
from cbatch.tune.quick import BUDGET_S, Fastest, Work, calibrate, differing
from cbatch.tune.setting import Setting
from cbatch.tune.workbench import Workbench
from tests.sim.recording import COSTS

DEFAULT = Setting("bf16", "on")
F16_OFF = Setting("f16", "off")
MIX = Mix((100, 128, 156), 64.0, 160)
LONG = Work(MIX, 100_000)


class Machine:
    """A workbench in virtual time: `factors` says how much slower than `COSTS` settings are."""

    def __init__(self, factors: Mapping[Setting, float], *, slower: float = 1.0, refuses: str | None = None) -> None:
        self.clock = VirtualClock()
        self._factors = factors
        self._slower = slower
        self._refuses = refuses
        self.benches = 0

    @contextmanager
    def bench(self, setting: Setting, slots: int, cells: int) -> Iterator[Bench]:
        if setting.kv_type == self._refuses:
            raise UsageError("this model can't")
        self.benches += 1
        context = ContextConfig(max_num_seqs=slots, cells_per_seq=padded(cells))
        costs = scaled(COSTS, self._factors.get(setting, 1.0) * self._slower)
        yield Bench(SimulatedRunner(costs, context, clock=self.clock), vocabulary=100, streams=True, ubatch=512)

    def calibrate(self, work: Work = LONG, *, stopped: bool = False) -> tuple[Fastest | None, bool]:
        """What it came to, and whether it was begun."""
        begun: list[Any] = []
        found = calibrate(
            cast(Workbench, self), DEFAULT, work, 32, goes_on=lambda: not stopped, begins=lambda: begun.append(None)
        )
        return found, bool(begun)

    @property
    def seconds(self) -> float:
        return self.clock.now_ns() / 1e9


def scaled(costs: StepCostModel, factor: float) -> StepCostModel:
    names = (name for name in costs.single_costs() if not name.endswith("slope"))
    single = {name: getattr(costs, name) * factor for name in names}
    return replace(costs, weights_ns=tuple(ns * factor for ns in costs.weights_ns), **single)


def test_the_fastest_kernels_are_found_in_time() -> None:
    machine = Machine({F16_OFF: 0.9})
    found, begun = machine.calibrate()
    assert found is not None
    assert begun
    assert found.setting == F16_OFF
    assert found.ratio == pytest.approx(1 / 0.9, rel=0.01)
    assert found.seconds == pytest.approx(machine.seconds)
    assert 1 < machine.seconds < BUDGET_S
    assert differing(found.setting, DEFAULT) == {"kv_type": "f16", "flash_attn": "off"}


@pytest.mark.parametrize("factor", [0.98, 1.0, 1.2])
def test_the_default_stays_where_nothing_is_clearly_faster(factor: float) -> None:
    found, _ = Machine({F16_OFF: factor}).calibrate()
    assert found is not None
    assert found.setting == DEFAULT
    assert not differing(found.setting, DEFAULT)


def test_kinds_that_double_the_memory_arent_tried() -> None:
    found, _ = Machine({Setting("f32", "on"): 0.5, Setting("q8_0", "on"): 0.5}).calibrate()
    assert found is not None
    assert found.setting == DEFAULT


def test_nothing_is_measured_for_a_short_job() -> None:
    machine = Machine({})
    assert machine.calibrate(Work(MIX, 80)) == (None, False)
    assert machine.benches == 0


def test_a_job_that_turns_out_short_isnt_held_up() -> None:
    machine = Machine({})
    assert machine.calibrate(Work(MIX, 200)) == (None, False)
    assert 0 < machine.seconds < 0.1
    assert machine.calibrate(Work(MIX, 700)) == (None, False)
    assert machine.seconds < 2


def test_a_replay_is_as_long_as_its_requests_come() -> None:
    assert Machine({}).calibrate(Work(MIX, 10, span_s=600))[0] is not None
    assert Machine({}).calibrate(Work(MIX, 10**6, span_s=600, most_s=60))[0] is None


def test_slow_models_are_left_alone() -> None:
    machine = Machine({}, slower=60)
    with pytest.raises(EngineError, match="too slow to be calibrated in 8 s"):
        machine.calibrate()
    assert machine.seconds < BUDGET_S


@pytest.mark.parametrize("slower", [0.1, 1, 2, 4, 6, 10, 20])
def test_it_never_takes_longer_than_it_may(slower: float) -> None:
    machine = Machine({F16_OFF: 0.8}, slower=slower)
    try:
        found, _ = machine.calibrate()
    except EngineError:
        assert slower > 2
    else:
        assert found is not None
        assert found.setting == F16_OFF
    assert machine.seconds < BUDGET_S


def test_it_is_over_soon_once_the_user_wants_to_stop() -> None:
    machine = Machine({})
    with pytest.raises(EngineError):
        machine.calibrate(stopped=True)
    assert machine.seconds < 1


def test_kinds_that_cant_be_had_are_left_out() -> None:
    found, _ = Machine({F16_OFF: 0.5}, refuses="f16").calibrate()
    assert found is not None
    assert found.setting == DEFAULT


def test_without_room_for_the_default_nothing_is_found() -> None:
    with pytest.raises(UsageError):
        Machine({}, refuses="bf16").calibrate()
