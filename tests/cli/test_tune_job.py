"""What `cbatch tune` hands to the tuner."""

from __future__ import annotations

import inspect
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cbatch.cli import parts, tune_job
from cbatch.cli.defaults import replay_options, run_options
from cbatch.cli.tune import tune
from cbatch.cli.tune_job import chosen_options, scheduler_for
from cbatch.config import SchedulerConfig
from cbatch.llama import machine
from cbatch.tune.choice import SlotOption
from tests.tune.test_report import TUNING

app = typer.Typer()
app.command()(tune)


def scheduler(**given: Any) -> SchedulerConfig:
    defaults = {name: parameter.default for name, parameter in inspect.signature(tune).parameters.items()}
    return scheduler_for({**defaults, **given})


def test_where_requests_come_at_a_rate_the_engine_is_that_of_a_replay() -> None:
    job = {"inputs": ["t"], "output": Path()}
    replay, run = (parts.scheduler_config(options(job)) for options in (replay_options, run_options))
    assert replay.max_num_batched_tokens < run.max_num_batched_tokens
    assert (replay.drain, run.drain) == ("arrival", "longest")
    assert replay.keep_prefixes
    found = scheduler(goodput=["ttft:500"], request_rate=2.0)
    assert found.max_num_batched_tokens == replay.max_num_batched_tokens
    assert (found.drain, found.keep_prefixes, found.group_prefixes) == ("arrival", True, False)
    found = scheduler(max_stall=50.0)
    assert (found.max_num_batched_tokens, found.drain) == (run.max_num_batched_tokens, "longest")


@pytest.mark.parametrize("inputs", ["*.parquet", "*.json", "."])
def test_no_results_are_in_the_way_of_inputs(inputs: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """It comes as far as the model, which isn't there."""
    monkeypatch.chdir(tmp_path)
    ran = CliRunner().invoke(app, ["--for", inputs, "--model", "none.gguf"])
    assert "none.gguf" in str(ran.exception)


@pytest.mark.parametrize(
    ("slots", "usual", "few_rows", "told"),
    [
        (32, 32, False, 32),
        (16, 32, False, 16),
        (48, 16, False, 48),
        (16, 16, False, None),  # memory had no room for more rows as long as these
        (6, 16, True, None),
    ],
)
def test_slots_that_the_rows_tuned_for_were_the_limit_of_are_left_out(
    slots: int, usual: int, few_rows: bool, told: int | None
) -> None:
    tuning = replace(TUNING, slots=SlotOption(slots, 90.0, 3e8), usual_slots=usual, few_rows=few_rows)
    assert chosen_options(tuning).get("max_num_seqs") == told


def test_slots_stay_beside_the_budget_that_was_chosen_for_them() -> None:
    tuning = replace(TUNING, slots=SlotOption(16, 90.0, 3e8, batched_tokens=20), usual_slots=16)
    found = chosen_options(tuning)
    assert (found["max_num_seqs"], found["max_num_batched_tokens"]) == (16, 20)


def test_cpus_that_are_given_have_a_profile_of_their_own(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Else those of the whole machine would lose theirs."""
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    places: list[Path] = []

    def stop(path: Path) -> None:
        places.append(path)
        raise InterruptedError

    monkeypatch.setattr(tune_job, "_check_place", stop)
    for mask in ("auto", "none", str(machine.allowed_cpus()[0])):
        CliRunner().invoke(app, ["--model", str(tiny_model), "--cpu-mask", mask])
    assert places[0] == places[1] != places[2]
