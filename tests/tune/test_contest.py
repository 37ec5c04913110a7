"""Coarse to fine on made-up machines."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import pytest

from cbatch.tune.contest import Contest, contest
from cbatch.tune.setting import Setting
from tests.tune.machines import BF16, F16, MIX, Machine


def always() -> bool:
    return True


def nothing() -> None:
    """Needs no refinement."""


def held(machine: Machine, llama_cpp: Setting = F16) -> Contest:
    return contest(
        [BF16, F16],
        variants,
        machine.trial,
        MIX,
        llama_cpp=llama_cpp,
        time_for_kernels=always,
        time_for_variants=always,
        refine=nothing,
    )


def variants(setting: Setting) -> Iterator[Setting]:
    yield replace(setting, ubatch=1024)
    yield replace(setting, kv_mode="unified")


def test_one_change_after_another_is_taken_while_it_helps() -> None:
    large = replace(F16, ubatch=1024)
    both = replace(large, kv_mode="unified")
    machine = Machine({BF16: 1.0, F16: 0.8, large: 0.6, replace(F16, kv_mode="unified"): 0.7, both: 0.5})
    found = held(machine)
    assert found.best == both
    by_setting = {each.setting: each for each in found.tried}
    assert by_setting.keys() == {BF16, F16, large, both, replace(F16, kv_mode="unified")}
    assert by_setting[both].over_default == pytest.approx(2.0)
    assert by_setting[both].over_llama_cpp == pytest.approx(1.6)
    assert by_setting[BF16].over_llama_cpp == pytest.approx(0.8)


def test_variants_that_dont_help_end_it() -> None:
    others = dict.fromkeys(variants(BF16), 1.01)
    machine = Machine({BF16: 1.0, F16: 1.5, **others})
    found = held(machine)
    assert (found.best, found.runner_up) == (BF16, None)
    assert len(found.tried) == 4


def test_what_may_be_faster_is_told_of() -> None:
    machine = Machine({BF16: 1.0, F16: 0.975, **dict.fromkeys(variants(BF16), 1.0)})
    found = held(machine)
    assert (found.best, found.runner_up) == (BF16, F16)


def test_where_the_rules_are_llama_cpp_s_they_are_what_others_are_set_beside() -> None:
    found = held(Machine({BF16: 1.0, F16: 1.4, **dict.fromkeys(variants(BF16), 1.1)}), llama_cpp=BF16)
    over = {each.setting: each.over_llama_cpp for each in found.tried}
    assert over[BF16] == 1.0
    assert over[F16] == pytest.approx(1 / 1.4)
