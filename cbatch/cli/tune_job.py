"""`cbatch tune` from start to end: what to tune for, the tuning, its profile, and what is said of it."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import typer

from cbatch.cli import parts
from cbatch.cli.control import Control
from cbatch.cli.defaults import replay_options, run_options
from cbatch.cli.ending import SWITCH_INTERVAL_S, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import Summary
from cbatch.cli.record import json_ready
from cbatch.cli.run_options import RunOptions
from cbatch.cli.tune_goal import GoalOptions, make_goal
from cbatch.clock import WallClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Runner
from cbatch.errors import Interrupted, OutputError
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.model import Model
from cbatch.llama.resolve import resolve_context
from cbatch.llama.tokenizer import Tokenizer
from cbatch.outputs import utc_now
from cbatch.report.tuning import print_tuning, tuning_json
from cbatch.tune.budget import Budget
from cbatch.tune.profile import profile_key, profile_path, save_profile
from cbatch.tune.result import Tuning
from cbatch.tune.setting import SLOTS
from cbatch.tune.survey import Costs
from cbatch.tune.tuner import Tuner
from cbatch.tune.workbench import Workbench

_STOPPED = "stopped; no profile was written"


def run_tune(given: Mapping[str, Any]) -> int:
    """Tune as the options say; returns the exit code. Raises `CbatchError`."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options = run_options(_job(given))
    options.check()
    asked = GoalOptions.of(given)
    clock = WallClock()  # all of it, model and rows too, has to stay within the budget
    config, warning = parts.check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    key = profile_key(config, options.context_config().cpus)
    path: Path = given["profile"] or profile_path(key)
    _check_place(path)

    def say(message: str) -> None:
        if not options.quiet:
            typer.echo(f"cbatch: {message}", err=True)

    control = Control()
    with Interrupts(control.abort, control.abort), Model(config) as model:
        try:
            tuning, costs = _tuner(options, asked, scheduler_for(given), clock, model, say, control).tune()
        except Interrupted:
            raise Interrupted(_STOPPED) from None
        if control.abort_wanted:
            raise Interrupted(_STOPPED)
        record = _record(tuning, costs, model, options, given)
    save_profile(path, {"created": utc_now(), "key": key, **record})
    if options.summary is Summary.json:
        shown(lambda: typer.echo(tuning_json(tuning, {"profile": path})))
    else:
        shown(lambda: print_tuning(tuning, {"profile": path}))
    return 0


def _job(given: Mapping[str, Any]) -> dict[str, Any]:
    """What was given, as of a command that does the job."""
    return {**given, "inputs": given["for_rows"] or ["-"]}


def scheduler_for(given: Mapping[str, Any]) -> SchedulerConfig:
    """Of the command that is tuned for: where requests come at a rate `cbatch replay`, else `cbatch run`."""
    options = run_options if given["request_rate"] is None else replay_options
    return parts.scheduler_config(options(_job(given)))


def _check_place(path: Path) -> None:
    """Raises `OutputError` where no profile can be written: better now than when all is measured."""
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise OutputError(f"{path} can't be written: {error.strerror or error}; give another --profile") from error
    if path.is_dir() or not os.access(path.parent, os.W_OK):
        reason = "it is a directory" if path.is_dir() else f"{path.parent} may not be written to"
        raise OutputError(f"{path} can't be written: {reason}; give another --profile")


def _tuner(
    options: RunOptions,
    asked: GoalOptions,
    scheduler: SchedulerConfig,
    clock: WallClock,
    model: Model,
    say: Callable[[str], None],
    control: Control,
) -> Tuner:
    def begins(runner: Runner) -> None:
        control.steer(runner.abort, runner.abort)

    budget, tokenizer = Budget(clock, asked.budget), Tokenizer(model)
    place = partial(parts.place_threads, options)
    workbench = Workbench(model, tokenizer, options.context_config(), place, clock, begins)
    with closing(parts.make_encoder(options, model, tokenizer)) as encoder:
        goal = make_goal(asked, options, workbench, encoder, say, control)
    return Tuner(workbench, goal, scheduler, budget, say, stopped=lambda: control.abort_wanted)


def _record(
    tuning: Tuning, costs: Costs, model: Model, options: RunOptions, given: Mapping[str, Any]
) -> dict[str, Any]:
    """The profile, in the form that `cbatch simulate` knows too."""
    chosen = tuning.setting
    context = chosen.context(tuning.slots.slots, 256, options.context_config())
    metadata = {name: value for name, value in model.metadata.items() if name.endswith(".context_length")}
    return {
        "options": chosen_options(tuning),
        "context": {
            "kv_mode": chosen.kv_mode,
            "ubatch": chosen.ubatch,
            "parking": resolve_context(model, context).parking,
        },
        "model": {"path": str(model.config.path), "metadata": metadata},
        "totals": {"kv_memory": {"bytes_per_token": kv_bytes_per_cell(model, context)}},
        "tuned_with": json_ready({name: value for name, value in given.items() if value not in (None, False)}),
        "tuned_for": asdict(GoalOptions.of(given)),
        "most_slots": max(option.slots for option in tuning.slot_options),
        "step_costs": costs.model.to_dict(),
        "error": costs.error._asdict(),
        "tried": [each.to_dict() for each in tuning.tried],
        "tuning": tuning.to_dict(),
    }


def chosen_options(tuning: Tuning) -> dict[str, Any]:
    """What later jobs take of it, by option; None where cbatch's own rules come to the same.

    No slots where memory had no room for more, or the job no rows: that says nothing of jobs of other rows.
    """
    chosen, usual, slots = tuning.setting, tuning.default, tuning.slots
    found: dict[str, Any] = {
        "kv": chosen.kv_mode,
        "kv_type": None if chosen.kv_type == usual.kv_type else chosen.kv_type,
        "flash_attn": None if chosen.flash_attn == usual.flash_attn else chosen.flash_attn,
        "ubatch": chosen.ubatch,
        "threads": chosen.threads,
    }
    if slots.batched_tokens is not None:
        found["max_num_batched_tokens"] = slots.batched_tokens
    as_many_as_fit = slots.slots == tuning.usual_slots < SLOTS and slots.batched_tokens is None
    if not (tuning.few_rows or as_many_as_fit):
        found["max_num_seqs"] = slots.slots
    return found
