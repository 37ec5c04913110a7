"""Options of a comparison that one of its variants, or its preset, says otherwise."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from cbatch.cli.compare import compare
from cbatch.cli.compare_options import CompareOptions
from cbatch.errors import UsageError


def options(**given: Any) -> CompareOptions:
    """As given to the command."""
    parameters = inspect.signature(compare).parameters
    defaults = {name: parameter.default for name, parameter in parameters.items() if name != "context"}
    inputs = [] if "preset" in given else ["t.parquet"]
    return CompareOptions(**{**defaults, "inputs": inputs, **given}, given=tuple(given))


PREFIXES = {"policies": "continuous,continuous+prefixes"}


@pytest.mark.parametrize("given", [{"prefix_cache": "4GiB"}, {"prefix_cache": "0"}, {"no_prefix_cache": True}])
@pytest.mark.parametrize("which", [{"ladder": True}, PREFIXES, {"variant": ["continuous+prefixes:kv=unified"]}])
def test_what_a_policy_differs_by_isnt_given_to_all(which: dict[str, Any], given: dict[str, Any]) -> None:
    options(**which).check()
    option = "--" + next(iter(given)).replace("_", "-")
    with pytest.raises(UsageError, match=rf"{option} is what continuous\+prefixes differs by: leave it out"):
        options(**which, **given).check()


def test_without_that_policy_all_may_have_a_prefix_cache() -> None:
    given = options(prefix_cache="4GiB")
    given.check()
    sizes = [each.of(given).scheduler_config().prefix_cache_bytes for each in given.variants]
    assert sizes == [4 << 30, 4 << 30]


def test_a_wait_needs_groups() -> None:
    options(static_wait=50.0).check()
    options(static_wait=50.0, policies="sequential,continuous", variant=["padded:kv=unified"]).check()
    with pytest.raises(UsageError, match="--static-wait is for static and padded batching"):
        options(static_wait=50.0, policies="sequential,continuous").check()


def test_a_preset_with_slots_of_its_own() -> None:
    options(preset="orca", max_num_seqs=4).check()
    options(preset="anyscale").check()
    with pytest.raises(UsageError, match="--preset anyscale sets its own slots: leave --max-num-seqs out"):
        options(preset="anyscale", max_num_seqs=4).check()
