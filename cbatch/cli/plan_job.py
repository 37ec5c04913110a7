"""`cbatch plan` from start to end: the first rows, their time by a cost model, and what would be faster."""

from __future__ import annotations

import sys
from collections.abc import Mapping
from dataclasses import replace
from typing import Any

import typer

from cbatch.cli import parts
from cbatch.cli.auto import Auto, auto_options
from cbatch.cli.defaults import run_options
from cbatch.cli.dry_run import TRIAL_S, DryRun
from cbatch.cli.ending import EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, shown
from cbatch.cli.first_rows import read_inputs
from cbatch.cli.given import given_options
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.lengths import parse_output_len
from cbatch.cli.options import Summary
from cbatch.cli.planned import Planned
from cbatch.cli.run_options import RunOptions
from cbatch.clock import WallClock
from cbatch.config import ContextConfig
from cbatch.inputs import RowStream
from cbatch.llama.estimate import check_memory
from cbatch.llama.model import Model
from cbatch.llama.resolve import ResolvedContext, resolve_context
from cbatch.report.plan import plan_json, print_plan
from cbatch.traces.lengths import LengthDistribution
from cbatch.tune.plan import Plan
from cbatch.tune.profile import Profile, find_profile


def run_plan(given: Mapping[str, Any], context: typer.Context) -> int:
    """Print what the job would take; returns the exit code. Raises `CbatchError` where it couldn't begin."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options = run_options(given)
    options.check()
    lengths = None if given["output_len"] is None else parse_output_len(given["output_len"])
    clock = WallClock()
    rows = read_inputs(options, clock)
    config, warning = parts.check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    options, auto = auto_options(options, config, given_options(context), enabled=given["auto"])
    if options.memory_check:
        check_memory(config.path, config, options.context_config())
    profile = find_profile(config, options.context_config().cpus) if given["auto"] else None
    with Model(config) as model:
        plan = _plan(options, auto, profile, rows, clock, model, lengths)
    if options.summary is Summary.json:
        shown(lambda: typer.echo(plan_json(plan)))
    else:
        shown(lambda: print_plan(plan))
    return EXIT_ROWS_FAILED if plan.preview.faults else 0


def _plan(
    options: RunOptions,
    auto: Auto,
    profile: Profile | None,
    rows: RowStream,
    clock: WallClock,
    model: Model,
    lengths: LengthDistribution | None,
) -> Plan:
    if profile is not None and (unlike := _unlike(profile, options, model)):
        auto = replace(auto, line=f"the profile was measured with other settings ({unlike}): rows are tried instead")
        profile = None
    if profile is None:
        notes = [] if lengths is None else ["--output-len isn't used: how long outputs get is seen in the rows tried"]
        job = DryRun(options, clock, model, notes)
        with Interrupts(job.control.abort, job.control.abort):
            return Plan(job.preview(rows, 0, TRIAL_S), auto.line, None, ())
    return Planned(options, profile, model, lengths).plan(rows, auto.line)


def _unlike(profile: Profile, options: RunOptions, model: Model) -> str:
    """What the job's settings are in place of the profile's; nothing where costs are its."""
    config, choice = options.context_config(), profile.options
    told = {"kv_mode": choice["kv"], **{name: choice[name] for name in ("kv_type", "flash_attn", "ubatch", "threads")}}
    known = {name: value for name, value in told.items() if value is not None}
    tuned = ContextConfig(max_num_seqs=config.max_num_seqs, cpus=config.cpus, **known)
    ours, theirs = (_kernels(resolve_context(model, each)) for each in (config, tuned))
    return ", ".join(f"{name} {theirs[name]}, not {value}" for name, value in ours.items() if theirs[name] != value)


def _kernels(resolved: ResolvedContext) -> dict[str, Any]:
    """What decides what steps cost."""
    types = "/".join(dict.fromkeys((resolved.type_k, resolved.type_v)))
    return {
        "kv-type": types,
        "flash-attn": resolved.flash_attn,
        "kv": resolved.kv_mode,
        "ubatch": resolved.ubatch,
        "threads": resolved.threads,
    }
