"""`cbatch simulate` from start to end. Loads no model and no native library."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cbatch.cli.ending import EXIT_ROWS_FAILED, shown
from cbatch.cli.options import Summary
from cbatch.cli.replay_notes import conditions
from cbatch.cli.simulate_options import SimulateOptions, make_options
from cbatch.cli.simulate_profile import Profile, open_profile
from cbatch.cli.simulate_record import Recording
from cbatch.cli.simulate_same import is_same_replay
from cbatch.cli.simulate_trace import SimulatedTrace
from cbatch.clock import VirtualClock
from cbatch.config import ContextConfig, Overflow
from cbatch.driver import Outcome
from cbatch.engine import Engine
from cbatch.feed import Arrivals
from cbatch.metrics import ReplayAccumulator, ReplaySummary
from cbatch.outputs import check_directory, output_paths, prepare_directory, write_sweep
from cbatch.replay import Replay, find_capacity, may_hold
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
from cbatch.types import Observer


@dataclass(frozen=True)
class _Simulator:
    """Plays one trace with one profile's costs."""

    profile: Profile
    trace: SimulatedTrace
    notes: Sequence[str]
    """What the figures have to be read with."""

    def play(self, options: SimulateOptions, rate: float | None, directory: Path | None) -> ReplaySummary:
        """One replay in virtual time, written to `directory` where there is one."""
        profile, limit = self.profile, options.most_cells(self.profile.trained_cells)
        context, overflow = options.context(self.trace.needs, limit), options.overflow(limit)
        totals = ReplayAccumulator(
            options.objectives,
            options.percentile_list(),
            self.trace.rate(rate),
            closed_loop=options.closed_loop,
            bytes_per_token=profile.bytes_per_token,
        )

        def drive(*observers: Observer) -> Outcome:
            return self._replay(options, rate, context, overflow, limit, [totals, *observers]).run()

        if directory is None:
            drive()
        else:
            recording = Recording(directory, options, profile, self.trace, rate, context, overflow, self.notes)
            recording.play(drive, totals.summary)
        return totals.summary()

    def _replay(
        self,
        options: SimulateOptions,
        rate: float | None,
        context: ContextConfig,
        overflow: Overflow,
        limit: int,
        observers: Sequence[Observer],
    ) -> Replay:
        clock, bytes_per_token = VirtualClock(), self.profile.bytes_per_token or 0.0
        runner = SimulatedRunner(
            self.profile.costs, context, clock=clock, bytes_per_token=bytes_per_token, parking=self.profile.parking
        )
        return Replay(
            Engine(runner, options.scheduler_config(), log_calls=False),
            Arrivals(self.trace.jobs(rate, limit), clock, options.pacing()),
            observers,
            max_cells=limit,
            overflow=overflow,
            deadline_ns=options.deadline_ns(),
        )


def run_simulate(given: Mapping[str, Any]) -> int:
    """Simulate as the options say; returns the exit code. Raises `CbatchError`."""
    profile = open_profile(given["profile"])
    options = make_options(given, profile)
    if options.output is not None:
        check_directory(options.output, options.force)
    trace = SimulatedTrace(options, options.trace)
    simulator = _Simulator(profile, trace, [*conditions(options), *_notes(options, profile, trace)])
    if options.rates is not None or options.find_capacity:
        return _sweep(options, simulator)
    return _variants(options, simulator) if options.variant else _single(options, simulator)


def _single(options: SimulateOptions, simulator: _Simulator) -> int:
    profile, output = simulator.profile, options.output
    summary = simulator.play(options, options.request_rate, output)
    measured = agreement(summary, profile.record["totals"]) if is_same_replay(profile, options, simulator.trace) else []
    paths = {} if output is None else output_paths(output, options.results_format.value)
    told = (summary, profile.error, measured, simulator.notes, paths)
    if options.summary is Summary.json:
        shown(lambda: typer.echo(simulation_json(*told)))
    else:
        shown(lambda: print_simulation(*told))
    return _code([summary])


def _variants(options: SimulateOptions, simulator: _Simulator) -> int:
    paths = _prepared(options)
    found = {
        variant.name: simulator.play(
            variant.of(options), options.request_rate, options.output and options.output / variant.name
        )
        for variant in options.variants
    }
    told = (found, simulator.profile.error, simulator.notes, paths)
    if options.summary is Summary.json:
        shown(lambda: typer.echo(variants_json(*told)))
    else:
        shown(lambda: print_variants(*told))
    return _code(found.values())


def _sweep(options: SimulateOptions, simulator: _Simulator) -> int:
    points: dict[float, ReplaySummary] = {}
    paths, output = _prepared(options), options.output

    def play(rate: float) -> bool:
        points[rate] = simulator.play(options, rate, output and output / f"rate-{rate:g}")
        return may_hold(points[rate], options.attainment)

    tried = {rate: play(rate) for rate in options.rates or ()}
    if options.find_capacity:
        find_capacity(play, start=min(tried, default=simulator.trace.base_rate or 1.0), tried=tried)
    found = list(points.items())
    if output is not None:
        paths = {"sweep": write_sweep(output, found), **paths}
    told = (found, options.attainment, simulator.profile.error, simulator.notes, paths)
    if options.summary is Summary.json:
        shown(lambda: typer.echo(sweep_simulation_json(*told)))
    else:
        shown(lambda: print_sweep_simulation(*told))
    return _code(points.values())


def _prepared(options: SimulateOptions) -> Mapping[str, Path]:
    """The directory for several simulations, where one is asked for."""
    if options.output is None:
        return {}
    prepare_directory(options.output, options.force)
    return {"replays": options.output}


def _notes(options: SimulateOptions, profile: Profile, trace: SimulatedTrace) -> Iterator[str]:
    """What the figures have to be read with."""
    for variant in options.variants:
        wanted = variant.of(options)
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
