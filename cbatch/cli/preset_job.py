"""`cbatch compare --preset` from start to end: traces, comparisons by turns, and what was published."""

from __future__ import annotations

import math
import sys
from collections import Counter
from dataclasses import dataclass, field, fields
from functools import cached_property
from pathlib import Path

import typer

from cbatch.cli import parts
from cbatch.cli.calibrate import Calibrator
from cbatch.cli.compare_job import Compared, CompareJob
from cbatch.cli.compare_notes import shared_notes
from cbatch.cli.compare_options import CompareOptions
from cbatch.cli.compare_page import write_page
from cbatch.cli.control import Control
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import Summary
from cbatch.cli.replay_source import open_source
from cbatch.cli.trace_file import write_trace
from cbatch.cli.variants import POLICIES, Variant
from cbatch.clock import WallClock
from cbatch.errors import Interrupted, UsageError
from cbatch.llama.model import Model
from cbatch.metrics.reproduction import Finding, Reproduction, finding, rates_at_latency
from cbatch.outputs import prepare_directory, write_reproduction
from cbatch.report.reproduction import print_reproduction, reproduction_json
from cbatch.traces import presets
from cbatch.traces.generate import generate
from cbatch.traces.presets import Point, Preset, make_preset


@dataclass(frozen=True, kw_only=True)
class PointOptions(CompareOptions):
    """Those of one point's comparison."""

    slots: dict[str, int] = field(default_factory=dict)
    serve_with: tuple[str, ...] = presets.POLICIES

    @cached_property
    def variants(self) -> list[Variant]:
        """The study's policies, each with its own number of slots where the study has one."""
        own = {name: {"max_num_seqs": self.slots[name]} for name in self.slots}
        return [Variant(name, {**POLICIES[name], **own.get(name, {})}) for name in self.serve_with]


def run_preset(options: CompareOptions) -> int:
    """Compare as the options say; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options.check()
    assert options.preset is not None
    preset = make_preset(options.preset, options.scale_lengths)
    _check_rate(options.request_rate, preset)
    model_config = parts.ready_model(options, options.directory())
    with Model(model_config) as model:
        job = PresetJob(options, preset, WallClock(), model)
        with Interrupts(job.control.stop, job.control.abort):
            return job.run()


def _check_rate(rate: float | None, preset: Preset) -> None:
    if rate is not None and not preset.needs_capacity:
        raise UsageError(f"--preset {preset.name} sends all requests at once: leave --request-rate out")
    if rate == math.inf:
        raise UsageError(f"--preset {preset.name} offers shares of --request-rate: give a number, or leave it out")


class PresetJob:
    """The points of a preset, each a comparison in a directory of its own, beside its trace."""

    def __init__(self, options: CompareOptions, preset: Preset, clock: WallClock, model: Model) -> None:
        self._options = options
        self._preset = preset
        self._clock = clock
        self._model = model
        plays = len(preset.points) * len(presets.POLICIES) * options.repeat
        self._calibrator = Calibrator(options, model, clock, plays=plays)
        self._directory = options.directory()
        self._requests = preset.num_requests if options.limit is None else options.limit
        self._capacity = options.request_rate
        self._jobs: list[tuple[Point, CompareJob]] = []
        self.control = Control()

    def run(self) -> int:
        prepare_directory(self._directory, self._options.force)
        try:
            self._play_all()
        except Interrupted:
            done = min((job.repetitions for _, job in self._jobs), default=0)
            if done > 0:
                self._report([f"stopped on request: {done} of {self._options.repeat} repetitions are told"])
            return EXIT_INTERRUPTED
        self._report([])
        return EXIT_ROWS_FAILED if any(job.failed for _, job in self._jobs) else 0

    def _play_all(self) -> None:
        """Each point once, then again: a machine that slows down meanwhile doesn't look like a trend over points."""
        if self._preset.needs_capacity and self._capacity is None:
            self._capacity = self._measure_capacity()
        self._jobs = [(point, self._job(point, presets.POLICIES)) for point in self._preset.points]
        for turn in range(self._options.repeat):
            for _, job in self._jobs:
                self._play(job, turn)

    def _measure_capacity(self) -> float:
        """Requests per second that continuous batching completes when all come at once."""
        job = self._job(self._preset.points[0].at_once("capacity"), ("continuous",))
        self._play(job, 0)
        found = job.runs["continuous"][0].summary.run.requests_per_s
        if not found:
            raise UsageError("no request completed, so there is no capacity to offer shares of: give --request-rate")
        return found

    def _play(self, job: CompareJob, turn: int) -> None:
        self.control.steer(job.control.stop, job.control.abort)
        if self.control.stop_wanted:
            raise Interrupted("stopped between two points")
        job.play(turn)

    def _job(self, point: Point, policies: tuple[str, ...]) -> CompareJob:
        """Its trace written and its directory made."""
        trace = self._directory / f"{point.label}.parquet"
        config, changes = point.config(self._requests, self._options.seed, self._capacity), Counter[str]()
        write_trace(trace, generate(config, changes), config.manifest(changes), if_empty="a point needs a request")
        options = self._point_options(point, trace, policies)
        prepare_directory(options.directory(), options.force)
        source = open_source(options, self._clock)
        title = f"cbatch compare  {self._preset.name}  {point.label}"
        return CompareJob(options, source, self._clock, self._model, self._calibrator, title)

    def _point_options(self, point: Point, trace: Path, policies: tuple[str, ...]) -> PointOptions:
        given = {f.name: getattr(self._options, f.name) for f in fields(self._options)}
        limit = self._options.max_concurrency
        own = {
            "inputs": [str(trace)],
            "output": self._directory / point.label,
            "preset": None,
            "request_rate": None,
            "limit": None,
            "scale_lengths": None,
            "max_concurrency": self._preset.max_concurrency if limit is None else limit,
        }
        return PointOptions(**{**given, **own}, slots=dict(point.slots), serve_with=policies)

    def _report(self, notes: list[str]) -> None:
        found = [(point, job.compared()) for point, job in self._jobs]
        notes = [*shared_notes({point.label: compared.notes for point, compared in found}), *notes]
        told = self._reproduction([compared for _, compared in found])
        paths = {"preset": write_reproduction(self._directory, told, notes), "points": self._directory}
        if self._options.report:
            page, reasons = write_page([compared.path.parent for _, compared in found], self._directory)
            paths |= {} if page is None else {"report": page}
            notes += reasons
        if self._options.summary is Summary.json:
            shown(lambda: typer.echo(reproduction_json(told, paths, notes)))
        else:
            shown(lambda: print_reproduction(told, paths, notes))

    def _reproduction(self, compared: list[Compared]) -> Reproduction:
        audits = [audit for found in compared for audit in found.audits]
        return Reproduction(
            preset=self._preset.name,
            source=self._preset.source,
            reason=self._preset.reason,
            scale=self._preset.scale,
            requests=self._requests,
            repeats=min(job.repetitions for _, job in self._jobs),
            capacity_rps=self._capacity,
            findings=tuple(self._findings()),
            outputs=sum(audit.requests for audit in audits),
            same_outputs=sum(audit.same for audit in audits),
        )

    def _findings(self) -> list[Finding]:
        found = [
            finding(point.label, metric, job.runs, point.published.get(metric))
            for metric in self._preset.metrics
            for point, job in self._jobs
        ]
        if self._preset.rate_at_latency is not None:
            rates = [rate for point, _ in self._jobs if (rate := point.rate(self._capacity)) is not None]
            found.append(rates_at_latency(rates, found, self._preset.rate_at_latency))
        return found
