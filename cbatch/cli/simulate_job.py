"""`cbatch simulate` from start to end. Loads no model and no native library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cbatch.cli.ending import EXIT_ROWS_FAILED, shown
from cbatch.cli.options import Summary
from cbatch.cli.simulate_options import SimulateOptions, make_options
from cbatch.cli.simulate_profile import Profile, open_profile
from cbatch.cli.simulate_trace import SimulatedTrace
from cbatch.clock import VirtualClock
from cbatch.config import Overflow
from cbatch.engine import Engine
from cbatch.feed import Arrivals
from cbatch.metrics import ReplayAccumulator, ReplaySummary
from cbatch.replay import Replay, find_capacity, holds
from cbatch.report.simulation import (
    print_simulation,
    print_sweep_simulation,
    print_variants,
    simulation_json,
    sweep_simulation_json,
    variants_json,
)
from cbatch.sim.agreement import agreement
from cbatch.sim.runner import SimulatedRunner


@dataclass(frozen=True)
class _Simulator:
    """Plays one trace with one profile's costs."""

    profile: Profile
    trace: SimulatedTrace

    def play(self, options: SimulateOptions, rate: float | None) -> ReplaySummary:
        """One replay in virtual time."""
        profile, clock = self.profile, VirtualClock()
        limit = options.most_cells(profile.trained_cells)
        runner = SimulatedRunner(
            profile.costs,
            options.context(self.trace.needs, limit),
            clock=clock,
            bytes_per_token=profile.bytes_per_token or 0.0,
            parking=profile.parking,
        )
        engine = Engine(runner, options.scheduler_config(), log_calls=False)
        totals = ReplayAccumulator(
            options.objectives,
            options.percentile_list(),
            self.trace.rate(rate),
            closed_loop=options.closed_loop,
            bytes_per_token=profile.bytes_per_token,
        )
        replay = Replay(
            engine,
            Arrivals(self.trace.jobs(rate, limit), clock, options.pacing()),
            [totals],
            max_cells=limit,
            overflow=Overflow(options.on_overflow, options.keep or 0),
            deadline_ns=options.deadline_ns(),
        )
        replay.run()
        return totals.summary()


def run_simulate(given: Mapping[str, Any]) -> int:
    """Simulate as the options say; returns the exit code. Raises `CbatchError`."""
    profile = open_profile(given["profile"])
    options = make_options(given, profile)
    simulator = _Simulator(profile, SimulatedTrace(options, options.trace))
    notes = list(_notes(options, simulator))
    if options.rates is not None or options.find_capacity:
        return _sweep(options, simulator, notes)
    if options.variant:
        return _variants(options, simulator, notes)
    return _single(options, simulator, notes)


def _single(options: SimulateOptions, simulator: _Simulator, notes: list[str]) -> int:
    profile = simulator.profile
    summary = simulator.play(options, options.request_rate)
    measured = agreement(summary, profile.record["totals"]) if _is_of(profile, options, simulator.trace) else []
    if options.summary is Summary.json:
        shown(lambda: typer.echo(simulation_json(summary, profile.error, measured, notes)))
    else:
        shown(lambda: print_simulation(summary, profile.error, measured, notes))
    return _code([summary])


def _variants(options: SimulateOptions, simulator: _Simulator, notes: list[str]) -> int:
    found = {
        variant.name: simulator.play(options.varied(variant), options.request_rate) for variant in options.variants
    }
    error = simulator.profile.error
    if options.summary is Summary.json:
        shown(lambda: typer.echo(variants_json(found, error, notes)))
    else:
        shown(lambda: print_variants(found, error, notes))
    return _code(found.values())


def _sweep(options: SimulateOptions, simulator: _Simulator, notes: list[str]) -> int:
    points: dict[float, ReplaySummary] = {}

    def play(rate: float) -> bool:
        points[rate] = simulator.play(options, rate)
        return holds(points[rate], options.attainment) is True

    tried = {rate: play(rate) for rate in options.rates or ()}
    if options.find_capacity:
        find_capacity(play, start=min(tried, default=simulator.trace.base_rate or 1.0), tried=tried)
    told = (list(points.items()), options.attainment, simulator.profile.error, notes)
    if options.summary is Summary.json:
        shown(lambda: typer.echo(sweep_simulation_json(*told)))
    else:
        shown(lambda: print_sweep_simulation(*told))
    return _code(points.values())


def _is_of(profile: Profile, options: SimulateOptions, trace: SimulatedTrace) -> bool:
    """Whether the profile is a replay of just this: the same requests, at the same rate, with the same settings."""
    told, totals = profile.record.get("replay"), profile.record.get("totals")
    if not isinstance(told, Mapping) or not isinstance(totals, Mapping) or options.unlike(profile):
        return False
    ours = {
        "trace": trace.path.name,
        "requests": len(trace.needs),
        "requested_rate": trace.rate(options.request_rate),
        "transforms": trace.transforms,
        "closed_loop": options.closed_loop,
    }
    theirs = {name: told.get(name) for name in ours} | {"trace": Path(str(told.get("trace"))).name}
    same_pacing = all(profile.options.get(name) == getattr(options, name) for name in ("max_concurrency", "duration"))
    return ours == theirs and same_pacing


def _notes(options: SimulateOptions, simulator: _Simulator) -> Iterator[str]:
    """What the figures have to be read with."""
    profile, trace = simulator.profile, simulator.trace
    for variant in options.variants:
        wanted = options.varied(variant)
        if wanted.kv != profile.kv_mode:
            yield f"{variant.name}: its {wanted.kv} KV is only guessed from costs measured with {profile.kv_mode} KV"
        if wanted.ubatch > profile.ubatch:
            yield f"{variant.name}: its ubatch of {wanted.ubatch} is beyond the {profile.ubatch} that were measured"
    if trace.open_ended:
        yield (
            f"the trace has no output length for {trace.open_ended:,} of its requests: "
            f"such a one gets {options.max_tokens:,} tokens (--max-tokens)"
        )


def _code(summaries: Iterable[ReplaySummary]) -> int:
    return EXIT_ROWS_FAILED if any(summary.failed for summary in summaries) else 0
