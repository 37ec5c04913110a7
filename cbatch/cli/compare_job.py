"""`cbatch compare` from start to end: every variant several times, by turns, and what is said of them."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import typer

from cbatch.cli import parts
from cbatch.cli.auto import Auto, auto_options
from cbatch.cli.calibrate import Calibrator
from cbatch.cli.compare_notes import machine_notes, shared_notes
from cbatch.cli.compare_options import CompareOptions
from cbatch.cli.compare_page import write_page
from cbatch.cli.control import Control
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import Summary
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.replay_source import PromptSource, Source, open_source
from cbatch.cli.replay_stage import Stage
from cbatch.cli.variants import Variant
from cbatch.clock import WallClock
from cbatch.config import padded
from cbatch.driver import Ending
from cbatch.errors import Interrupted
from cbatch.llama.model import Model
from cbatch.llama.score import Scorer
from cbatch.metrics import Audit, Repeatability, RunCollector, RunData, audit, repeatability
from cbatch.metrics.compare import Comparison, compare
from cbatch.metrics.divergence import Gap
from cbatch.outputs import prepare_directory, write_comparison
from cbatch.report.compare import comparison_json, print_comparison
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord, Tokens


@dataclass(frozen=True, slots=True)
class Compared:
    """What a comparison came to."""

    comparison: Comparison
    audits: list[Audit]
    repeated: list[Repeatability]
    notes: list[str]
    path: Path
    """Where it is saved."""


def run_compare(options: CompareOptions) -> int:
    """Compare as the options say; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options.check()
    clock = WallClock()
    source = open_source(options, clock)
    model_config = parts.ready_model(options, options.directory())
    with Model(model_config) as model:
        calibrator = Calibrator(options, model, clock, plays=len(options.variants) * options.repeat)
        job = CompareJob(options, source, clock, model, calibrator)
        with Interrupts(job.control.stop, job.control.abort):
            return job.run()


class CompareJob:
    """Variants under comparison, and what each repetition gave."""

    def __init__(
        self,
        options: CompareOptions,
        source: Source,
        clock: WallClock,
        model: Model,
        calibrator: Calibrator,
        title: str = "cbatch compare",
    ) -> None:
        self.runs: dict[str, list[RunData]] = {variant.name: [] for variant in options.variants}
        """By variant, the baseline first."""
        self.control = Control()
        self._options = options
        self._source = source
        self._clock = clock
        self._model = model
        self._calibrator = calibrator
        self._title = title
        self._directory = options.directory()
        self._prompts = _Prompts()
        self._notes: dict[str, None] = {}
        self._settled: dict[str, tuple[ReplayOptions, Auto]] = {}
        """By variant: its options as they were played, and where they come from."""

    @property
    def repetitions(self) -> int:
        """Complete ones."""
        return min(map(len, self.runs.values()))

    @property
    def failed(self) -> bool:
        """Whether any request did."""
        return any(run.summary.failed for runs in self.runs.values() for run in runs)

    def run(self) -> int:
        prepare_directory(self._directory, self._options.force)
        try:
            for turn in range(self._options.repeat):
                self.play(turn)
        except Interrupted:
            if self.repetitions > 0:
                done = f"{self.repetitions} of {self._options.repeat} repetitions"
                self._report(self.compared([f"stopped on request: {done} are compared"]))
            return EXIT_INTERRUPTED
        self._report(self.compared())
        return EXIT_ROWS_FAILED if self.failed else 0

    def play(self, turn: int) -> None:
        """Every variant once, each time another one first. Raises `Interrupted`."""
        variants = self._options.variants
        first = turn % len(variants)
        for place, variant in enumerate([*variants[first:], *variants[:first]]):
            number = turn * len(variants) + place + 1
            self._play(variant, turn + 1, f"{number} of {self._options.repeat * len(variants)}")

    def _play(self, variant: Variant, turn: int, progress: str) -> None:
        options, auto = self._options_of(variant)
        collector = RunCollector(options.objectives, closed_loop=options.closed_loop)
        with closing(Stage(options, self._source, self._clock, self._model, auto, self._calibrator)) as stage:
            self.control.steer(stage.control.stop, stage.control.abort)
            if self.control.stop_wanted:
                raise Interrupted("stopped between two replays")
            title = f"{self._title}  {progress}: {variant.name}  {self._model.config.path.stem}"
            directory = self._directory / variant.name / str(turn)
            rate = options.prompt_rate if isinstance(self._source, PromptSource) else options.request_rate
            played = stage.play(directory, rate, title, observers=[collector, self._prompts])
            self._settled[variant.name] = stage.options, stage.auto
        if played.outcome.ending not in (Ending.COMPLETE, Ending.TIME_UP):
            raise Interrupted("stopped in the middle of a replay")
        data = collector.data()
        self.runs[variant.name].append(data)
        if data.summary.saturation is not None and data.summary.saturation.saturated:
            self._notes[f"{variant.name} was saturated: its latencies say how long the run was"] = None
        self._notes.update(dict.fromkeys(f"{variant.name}: {note}" for note in played.notes))

    def _options_of(self, variant: Variant) -> tuple[ReplayOptions, Auto]:
        """With a profile's settings for what neither the call nor the variant says, so that all have the same kernels.

        But for a step's budget, which is what decides whether prompts are chunked.
        """
        given = {*self._options.given, *variant.changes, "max_num_batched_tokens"}
        return auto_options(variant.of(self._options), self._model.config, given, enabled=self._options.auto)

    def compared(self, notes: Sequence[str] = ()) -> Compared:
        """The complete repetitions, one at least, saved in `compare.json`."""
        self.runs = {name: runs[: self.repetitions] for name, runs in self.runs.items()}
        baseline = self._options.variants[0].name
        comparison = compare(self.runs, baseline, seed=self._options.seed)
        audits, again = self._audits(baseline)
        settings = shared_notes({name: [auto.line] for name, (_, auto) in self._settled.items()})
        told = [*settings, *self._notes, *machine_notes(comparison, self.runs), *notes]
        written = write_comparison(self._directory, comparison, audits, again, told)
        return Compared(comparison, audits, again, told, written)

    def _report(self, found: Compared) -> None:
        report, notes = write_page([self._directory], self._directory) if self._options.report else (None, [])
        paths = {"compare": found.path, "report": report, "replays": self._directory}
        told = (
            found.comparison,
            found.audits,
            {k: v for k, v in paths.items() if v is not None},
            [*found.notes, *notes],
        )
        if self._options.summary is Summary.json:
            shown(lambda: typer.echo(comparison_json(*told, repeated=found.repeated)))
        else:
            shown(lambda: print_comparison(*told, repeated=found.repeated))

    def _audits(self, baseline: str) -> tuple[list[Audit], list[Repeatability]]:
        """Of the first repetition's outputs; how close a decision was is asked of the model again."""
        base = self.runs[baseline][0].outputs
        longest = max((self._prompts.tokens[id_].size + tokens.size for id_, tokens in base.items()), default=1)
        options, _ = self._settled[baseline]
        config = parts.place_threads(options, options.context_config())
        with Scorer(self._model, config, padded(longest)) as scorer:
            gap = _gaps(scorer, self._prompts.tokens, base)
            others = [variant.name for variant in self._options.variants[1:]]
            audits = [audit(name, base, self.runs[name][0].outputs, gap) for name in others]
        again = [repeatability(name, [run.outputs for run in runs]) for name, runs in self.runs.items()]
        return audits, again


def _gaps(scorer: Scorer, prompts: Mapping[str, Tokens], outputs: Mapping[str, Tokens]) -> Gap:
    def gap(request_id: str, position: int, ours: int, theirs: int) -> float:
        prefix = np.concatenate([prompts[request_id], outputs[request_id][:position]])
        return scorer.gap(prefix, ours, theirs)

    return gap


class _Prompts:
    """An observer that keeps the prompt of every request, once."""

    def __init__(self) -> None:
        self.tokens: dict[str, Tokens] = {}

    def step(self, record: StepRecord, view: Callable[[], EngineView]) -> None:
        """Of `Observer`: nothing is to be done."""

    def finished(self, ref: RowRef, output: RequestOutput) -> None:  # noqa: ARG002 (Observer)
        self.tokens.setdefault(output.id, output.request.prompt)

    def fault(self, fault: RowFault) -> None:
        """Of `Observer`: nothing is to be done."""
