"""`cbatch replay` from start to end: one replay, or many at different rates, and what is said of them."""

from __future__ import annotations

import sys
from contextlib import closing
from pathlib import Path

import typer

from cbatch.cli import parts
from cbatch.cli.auto import auto_options
from cbatch.cli.calibrate import Calibrator
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import Summary
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.replay_source import Source, open_source
from cbatch.cli.replay_stage import Stage
from cbatch.clock import WallClock
from cbatch.driver import Ending, Outcome
from cbatch.errors import Interrupted
from cbatch.llama.model import Model
from cbatch.metrics import ReplaySummary
from cbatch.outputs import output_paths, prepare_directory, write_sweep
from cbatch.replay import find_capacity, may_hold
from cbatch.report.replay_panels import sweep_title
from cbatch.report.replay_summary import print_replay_summary, replay_summary_json
from cbatch.report.sweep import print_sweep, sweep_json

_SEARCHED = 6
"""Rates that a search tries, about."""


def run_replay(options: ReplayOptions) -> int:
    """Replay as the options say; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options.check()
    clock = WallClock()
    source = open_source(options, clock)
    model_config = parts.ready_model(options, options.directory())
    options, auto = auto_options(options, model_config, options.given, enabled=options.auto)
    plays = max(1, len(options.rates or ()) + _SEARCHED * options.find_capacity)
    with (
        Model(model_config) as model,
        closing(Stage(options, source, clock, model, auto, Calibrator(options, model, clock, plays=plays))) as stage,
        Interrupts(stage.control.stop, stage.control.abort),
    ):
        title = f"cbatch replay  {Path(options.sources[0]).name}  {model_config.path.stem}"
        if options.rates is None and not options.find_capacity:
            return _single(options, stage, title)
        return _Sweep(options, source, stage, title).run()


def _single(options: ReplayOptions, stage: Stage, title: str) -> int:
    directory = options.directory()
    played = stage.play(directory, options.request_rate, title)
    summary, notes = played.summary, [stage.auto.line, *played.notes]
    paths = output_paths(directory, options.output_format.value)
    if options.timeline is not None:
        paths["timeline"] = options.timeline
    if options.summary is Summary.json:
        shown(lambda: typer.echo(replay_summary_json(summary, paths, notes)))
    else:
        shown(lambda: print_replay_summary(summary, paths, notes))
    if not _to_its_end(played.outcome):
        return EXIT_INTERRUPTED
    return EXIT_ROWS_FAILED if summary.failed else 0


class _Sweep:
    """A replay for each rate, then the search between them; a directory for each, and one table."""

    def __init__(self, options: ReplayOptions, source: Source, stage: Stage, title: str) -> None:
        self._options = options
        self._source = source
        self._stage = stage
        self._title = title
        self._directory = options.directory()
        self._rates = options.rates or ()
        self._points: list[tuple[float, ReplaySummary]] = []
        self._notes: dict[str, None] = {}

    def run(self) -> int:
        prepare_directory(self._directory, self._options.force)
        interrupted = False
        try:
            self._play_all()
        except Interrupted:
            interrupted = True
            self._notes["stopped on request: the table has the rates that were played to their end"] = None
        finally:
            if self._points:
                self._report()
        if interrupted:
            return EXIT_INTERRUPTED
        return EXIT_ROWS_FAILED if any(summary.failed for _, summary in self._points) else 0

    def _play_all(self) -> None:
        tried = {rate: self._may_hold(rate) for rate in self._rates}
        if self._options.find_capacity:
            start = min(tried, default=self._source.base_rate or 1.0)
            find_capacity(self._may_hold, start=start, tried=tried)

    def _may_hold(self, rate: float) -> bool:
        """Play at a rate."""
        of = None if self._options.find_capacity else len(self._rates)
        title = sweep_title(self._title, rate, len(self._points) + 1, of)
        played = self._stage.play(self._directory / f"rate-{rate:g}", rate, title)
        if not _to_its_end(played.outcome):
            raise Interrupted("stopped in the middle of a replay")
        self._points.append((rate, played.summary))
        self._notes.update(dict.fromkeys(f"at {rate:.4g} requests/s: {note}" for note in played.notes))
        return may_hold(played.summary, self._options.attainment)

    def _report(self) -> None:
        paths = {"sweep": write_sweep(self._directory, self._points), "replays": self._directory}
        points, wanted, notes = self._points, self._options.attainment, [self._stage.auto.line, *self._notes]
        if self._options.summary is Summary.json:
            shown(lambda: typer.echo(sweep_json(points, wanted, paths, notes)))
        else:
            shown(lambda: print_sweep(points, wanted, paths, notes))


def _to_its_end(outcome: Outcome) -> bool:
    return outcome.ending in (Ending.COMPLETE, Ending.TIME_UP)
