"""`cbatch tune` from start to end: what to tune for, the tuning, its profile, and what is said of it."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from contextlib import closing
from dataclasses import asdict, replace
from pathlib import Path
from typing import Any

import typer

from cbatch.cli import parts
from cbatch.cli.defaults import run_options
from cbatch.cli.ending import SWITCH_INTERVAL_S, shown
from cbatch.cli.options import Summary
from cbatch.cli.record import json_ready
from cbatch.cli.run_options import RunOptions
from cbatch.cli.tune_goal import GoalOptions, make_goal
from cbatch.clock import WallClock
from cbatch.errors import UsageError
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.outputs import utc_now
from cbatch.report.tuning import print_tuning, tuning_json
from cbatch.tune.profile import profile_key, profile_path, save_profile
from cbatch.tune.result import Tuning
from cbatch.tune.setting import built_in
from cbatch.tune.survey import Costs
from cbatch.tune.tuner import Tuner
from cbatch.tune.workbench import Workbench

_LEAST_BUDGET_S = 1.0


def run_tune(given: Mapping[str, Any]) -> int:
    """Tune as the options say; returns the exit code. Raises `CbatchError`."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options = run_options({**given, "inputs": given["for_rows"] or ["-"], "output": Path()})
    options.check()
    asked = GoalOptions.of(given)
    if not given["budget"] >= _LEAST_BUDGET_S:
        raise UsageError(f"--budget is {given['budget']:g}: give {_LEAST_BUDGET_S:g} second or more")
    config, warning = parts.check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    key = profile_key(config)
    path = given["profile"] or profile_path(key)

    def say(message: str) -> None:
        if not options.quiet:
            typer.echo(f"cbatch: {message}", err=True)

    with Model(config) as model:
        tuning, costs = _tuner(options, asked, given, model, say).tune()
        record = _record(tuning, costs, model, options, given)
    save_profile(path, {"created": utc_now(), "key": key, **record})
    if options.summary is Summary.json:
        shown(lambda: typer.echo(tuning_json(tuning, {"profile": path})))
    else:
        shown(lambda: print_tuning(tuning, {"profile": path}))
    return 0


def _tuner(options: RunOptions, asked: GoalOptions, given: Mapping[str, Any], model: Model, say: Any) -> Tuner:
    clock, tokenizer = WallClock(), Tokenizer(model)
    with closing(parts.make_encoder(options, model, tokenizer)) as encoder:
        goal = make_goal(asked, options, model, tokenizer, encoder, clock, say)
    return Tuner(
        Workbench(
            model, tokenizer, options.context_config(), lambda config: parts.place_threads(options, config), clock
        ),
        goal,
        parts.scheduler_config(options),
        budget_s=given["budget"],
        say=say,
    )


def _record(
    tuning: Tuning, costs: Costs, model: Model, options: RunOptions, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The profile, in the form that `cbatch simulate` knows too."""
    chosen, usual = tuning.setting, built_in(model)
    context = chosen.context(tuning.slots.slots, 256, options.context_config())
    metadata = {name: value for name, value in model.metadata.items() if name.endswith(".context_length")}
    settings = {
        "max_num_seqs": tuning.slots.slots,
        "kv": chosen.kv_mode,
        "kv_type": None if chosen.kv_type == usual.kv_type else chosen.kv_type,
        "flash_attn": None if chosen.flash_attn == usual.flash_attn else chosen.flash_attn,
        "ubatch": chosen.ubatch,
        "threads": chosen.threads,
    }
    if tuning.slots.batched_tokens is not None:
        settings["max_num_batched_tokens"] = tuning.slots.batched_tokens
    return {
        "options": settings,
        "context": {"kv_mode": chosen.kv_mode, "ubatch": chosen.ubatch},
        "model": {"path": str(model.config.path), "metadata": metadata},
        "totals": {"kv_memory": {"bytes_per_token": kv_bytes_per_cell(model, context)}},
        "tuned_with": json_ready({name: value for name, value in given.items() if value not in (None, False)}),
        "tuned_for": asdict(replace(GoalOptions.of(given))),
        "most_slots": max(option.slots for option in tuning.slot_options),
        "step_costs": costs.model.to_dict(),
        "error": costs.error._asdict(),
        "tried": [each.to_dict() for each in tuning.tried],
        "tuning": tuning.to_dict(),
    }
