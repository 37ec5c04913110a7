"""What a simulation takes from its options and the profile, where a replay takes it from the model."""

from __future__ import annotations

import inspect
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pytest

from cbatch.cli import parts
from cbatch.cli.defaults import replay_options
from cbatch.cli.simulate import simulate
from cbatch.cli.simulate_options import SimulateOptions, make_options
from cbatch.cli.simulate_profile import Profile
from cbatch.errors import UsageError
from cbatch.llama.model import Model
from tests.sim.recording import COSTS


def options(measured: Mapping[str, Any] | None = None, **given: Any) -> SimulateOptions:
    """As given to the command, beside a profile that was measured with some."""
    parameters = inspect.signature(simulate).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items() if name != "context"}
    profile = Profile(Path("p"), COSTS, None, {"options": measured or {}})
    return make_options({**defaults, "inputs": ["t.parquet"], "profile": Path("p"), **given}, profile)


@pytest.mark.parametrize("kv_cells", [None, 1000, 10_000])
@pytest.mark.parametrize("ctx", [None, 600, 3000])
def test_the_longest_request_is_as_long_as_in_a_replay(tiny: Model, kv_cells: int | None, ctx: int | None) -> None:
    given: dict[str, Any] = {"kv": "unified", "kv_cells": kv_cells, "ctx": ctx}
    real = replay_options({**given, "inputs": ["t"], "output": Path(), "model": str(tiny.config.path)})
    assert options(**given).most_cells(tiny.n_ctx_train) == parts.most_cells(real, tiny)


def test_without_a_model_nothing_is_too_long() -> None:
    assert options().most_cells(None) > 1 << 30
    assert options(kv="unified", kv_cells=1000).most_cells(None) == 1024


def test_a_variant_may_have_the_prefix_cache_that_was_left_out() -> None:
    several = options({"no_prefix_cache": True}, variant=["cached:prefix_cache=1GiB"])
    sizes = [each.of(several).scheduler_config().prefix_cache_bytes for each in several.variants]
    assert sizes == [0, 1 << 30]


def test_a_wait_without_groups_is_refused() -> None:
    wait: dict[str, Any] = {"static_wait": 50.0, "given": ("static_wait",)}
    options({"batching": "static"}, **wait)
    options(variant=["groups:batching=padded"], **wait)
    with pytest.raises(UsageError, match="--static-wait is for static and padded batching"):
        options(**wait)
    options({"static_wait": 50.0})


def test_prompts_are_whole_as_they_were_measured_unless_tokens_are_given() -> None:
    whole = {"whole_prompts": True, "max_num_batched_tokens": 2048}
    assert options(whole).scheduler_config().whole_prompts
    assert not options(whole, max_num_batched_tokens=128).scheduler_config().whole_prompts
    assert not options(whole, prefill_chunk=128).scheduler_config().whole_prompts
    assert not options().scheduler_config().whole_prompts
    several = options(whole, variant=["small:max_num_batched_tokens=128", "few:max_num_seqs=4"])
    assert [each.of(several).whole_prompts for each in several.variants] == [True, False, True]
