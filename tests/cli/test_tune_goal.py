"""What `cbatch tune` takes for the job, from rows and from lengths."""

from __future__ import annotations

import json
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cbatch.cli import parts
from cbatch.cli.control import Control
from cbatch.cli.defaults import run_options
from cbatch.cli.tune_goal import GoalOptions, make_goal
from cbatch.clock import WallClock
from cbatch.errors import InputError, UsageError
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.tune.goal import Goal
from cbatch.tune.workbench import Workbench

ASKED = GoalOptions(None, None, None, None, None, None, allow_kv_quant=False, budget=5.0)


def goal(model: Model, *, ignore_eos: bool = False, max_tokens: int = 20, **asked: Any) -> Goal:
    options = run_options(
        {
            "inputs": asked.get("for_rows") or ["-"],
            "output": Path(),
            "model": str(model.config.path),
            "ignore_eos": ignore_eos,
            "max_tokens": max_tokens,
            "threads": 1,
        }
    )
    tokenizer = Tokenizer(model)
    workbench = Workbench(model, tokenizer, options.context_config(), lambda config: config, WallClock())
    with closing(parts.make_encoder(options, model, tokenizer)) as encoder:
        return make_goal(replace(ASKED, **asked), options, workbench, encoder, lambda _: None, Control())


def rows(path: Path, *given: dict[str, Any]) -> list[str]:
    path.write_text("\n".join(map(json.dumps, given)), "utf-8")
    return [str(path)]


def outputs(found: Goal) -> list[int]:
    return [request.sampling.max_tokens for request in found.requests]


def test_without_rows_they_are_made_up(tiny: Model) -> None:
    found = goal(tiny)
    assert {int(request.prompt.size) for request in found.requests} == {128}
    assert set(outputs(found)) == {64}
    assert (found.made_up, found.all_rows, found.limits) == (True, False, {})


def test_rows_that_go_on_to_the_end_have_known_lengths(tiny: Model, tmp_path: Path) -> None:
    given = rows(tmp_path / "r.jsonl", {"prompt": "a", "max_tokens": 3}, {"prompt": "b"}, {"prompt": ""})
    found = goal(tiny, ignore_eos=True, for_rows=given)
    assert outputs(found) == [3, 20]
    assert (found.made_up, found.all_rows, found.limits) == (False, True, {})


def test_rows_that_may_end_are_tried_and_a_run_wont_know_where(tiny: Model, tmp_path: Path) -> None:
    found = goal(tiny, for_rows=rows(tmp_path / "r.jsonl", *({"prompt": f"row {i}"} for i in range(5))))
    assert all(1 <= length <= 20 for length in outputs(found))
    assert set(found.limits.values()) == {20}
    assert found.limits.keys() == {request.id for request in found.requests}


def test_samples_count_once(tiny: Model, tmp_path: Path) -> None:
    found = goal(tiny, for_rows=rows(tmp_path / "r.jsonl", {"prompt": "a", "n": 3, "temperature": 1}, {"prompt": "b"}))
    assert [request.num_samples for request in found.requests] == [1, 1]


def test_lengths_that_are_given_dont_pass_max_tokens(tiny: Model, tmp_path: Path) -> None:
    given = rows(tmp_path / "r.jsonl", {"prompt": "a", "max_tokens": 4}, {"prompt": "b"})
    found = goal(tiny, for_rows=given, output_len="9")
    assert outputs(found) == [4, 9]
    assert list(found.limits.values()) == [4, 20]


def test_rows_that_dont_fit_are_left_out(tiny: Model, tmp_path: Path) -> None:
    given = rows(tmp_path / "r.jsonl", {"prompt": "a", "max_tokens": 5000}, {"prompt": "b"})
    assert len(goal(tiny, ignore_eos=True, for_rows=given).requests) == 1
    with pytest.raises(InputError, match="none of the rows fits into a context of 2,048"):
        goal(tiny, prompt_len="4000")


@pytest.mark.parametrize("budget", [0.0, 0.9, float("nan"), float("inf")])
def test_budgets_that_cant_be(budget: float) -> None:
    with pytest.raises(UsageError, match="give 1 second or more"):
        replace(ASKED, budget=budget).check()
