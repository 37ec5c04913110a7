"""`cbatch compare` from start to end: every variant several times, by turns, and what is said of them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping
from contextlib import closing
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

import numpy as np
import typer

from cbatch.cli import parts
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import Summary
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.replay_source import PromptSource, Source, open_source
from cbatch.cli.replay_stage import Stage
from cbatch.cli.variants import DEFAULT, LADDER, Variant, check_names, parse_variant, policies
from cbatch.clock import WallClock
from cbatch.config import padded
from cbatch.driver import Ending
from cbatch.errors import Interrupted, UsageError
from cbatch.llama.model import Model
from cbatch.llama.score import Scorer
from cbatch.metrics import Audit, Repeatability, RunCollector, RunData, audit, repeatability
from cbatch.metrics.compare import compare
from cbatch.metrics.divergence import Gap
from cbatch.outputs import check_directory, prepare_directory, write_comparison
from cbatch.report.compare import comparison_json, print_comparison
from cbatch.types import EngineView, RequestOutput, RowFault, RowRef, StepRecord, Tokens


@dataclass(frozen=True, kw_only=True)
class CompareOptions(ReplayOptions):
    """`cbatch compare`'s options; see its help."""

    policies: str | None
    ladder: bool
    variant: list[str] | None
    repeat: int
    request_rate: float | None = None
    burstiness: float | None = None
    attainment: float = 0.9
    timeline: Path | None = None
    sweep_rate: str | None = None
    find_capacity: bool = False
    percentiles: str = "50,90,99"

    def check(self) -> None:
        super().check()
        if self.repeat < 1:
            raise UsageError(f"--repeat is {self.repeat}: give 1 or more")
        for variant in self.variants:
            ReplayOptions.check(variant.of(self))

    @cached_property
    def variants(self) -> list[Variant]:
        """The baseline first."""
        if self.ladder and self.policies is not None:
            raise UsageError("--ladder is a choice of --policies: leave one out")
        own = [parse_variant(text) for text in self.variant or ()]
        names = LADDER if self.ladder else self.policies.split(",") if self.policies is not None else DEFAULT
        found = [*policies([name.strip() for name in names]), *own]
        check_names(found)
        return found

    @property
    def prompt_rate(self) -> float | None:
        """An offline job unless a rate is given."""
        return math.inf if self.request_rate is None else self.request_rate

    def directory(self) -> Path:
        if self.output is not None:
            return self.output
        return super().directory().with_suffix(".compare")


def run_compare(options: CompareOptions) -> int:
    """Compare as the options say; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options.check()
    clock = WallClock()
    source = open_source(options, clock)
    check_directory(options.directory(), options.force)
    model_config, warning = parts.check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    with Model(model_config) as model:
        job = CompareJob(_whole_prompts(options, source), source, clock, model)
        with Interrupts(job.stop, job.abort):
            return job.run()


def _whole_prompts(options: CompareOptions, source: Source) -> CompareOptions:
    """A step's budget holds the longest prompt, so that only variants that say so chunk it."""
    longest = max(source.needs or (0,))
    return replace(options, max_num_batched_tokens=max(options.max_num_batched_tokens, padded(longest)))


class CompareJob:
    """Variants under comparison, and what each repetition gave."""

    def __init__(self, options: CompareOptions, source: Source, clock: WallClock, model: Model) -> None:
        self._options = options
        self._source = source
        self._clock = clock
        self._model = model
        self._directory = options.directory()
        self._runs: dict[str, list[RunData]] = {variant.name: [] for variant in options.variants}
        self._prompts = _Prompts()
        self._notes: dict[str, None] = {}
        self._stage: Stage | None = None
        self._stopped = self._aborted = False

    def stop(self) -> None:
        """Finish what runs and play nothing more. Any thread may call it."""
        self._stopped = True
        if self._stage is not None:
            self._stage.control.stop()

    def abort(self) -> None:
        """Stop as soon as possible. Any thread may call it."""
        self._stopped = self._aborted = True
        if self._stage is not None:
            self._stage.control.abort()

    def run(self) -> int:
        prepare_directory(self._directory, self._options.force)
        try:
            for turn in range(self._options.repeat):
                self._play_all(turn)
        except Interrupted:
            return self._interrupted()
        self._report()
        failed = any(run.summary.failed for runs in self._runs.values() for run in runs)
        return EXIT_ROWS_FAILED if failed else 0

    def _play_all(self, turn: int) -> None:
        """Every variant once, each time another one first."""
        variants = self._options.variants
        first = turn % len(variants)
        for place, variant in enumerate([*variants[first:], *variants[:first]]):
            number = turn * len(variants) + place + 1
            self._play(variant, turn + 1, f"{number} of {self._options.repeat * len(variants)}")

    def _play(self, variant: Variant, turn: int, progress: str) -> None:
        options = variant.of(self._options)
        collector = RunCollector(options.objectives)
        with closing(Stage(options, self._source, self._clock, self._model)) as stage:
            self._stage = stage
            if self._stopped:
                raise Interrupted("stopped between two replays")
            title = f"cbatch compare  {progress}: {variant.name}  {self._model.config.path.stem}"
            directory = self._directory / variant.name / str(turn)
            rate = options.prompt_rate if isinstance(self._source, PromptSource) else options.request_rate
            played = stage.play(directory, rate, title, observers=[collector, self._prompts])
        if played.outcome.ending not in (Ending.COMPLETE, Ending.TIME_UP):
            raise Interrupted("stopped in the middle of a replay")
        data = collector.data()
        self._runs[variant.name].append(data)
        if data.summary.saturation is not None and data.summary.saturation.saturated:
            self._notes[f"{variant.name} was saturated: its latencies say how long the run was"] = None
        self._notes.update(dict.fromkeys(f"{variant.name}: {note}" for note in played.notes))

    def _interrupted(self) -> int:
        done = min(len(runs) for runs in self._runs.values())
        if done > 0:
            self._runs = {name: runs[:done] for name, runs in self._runs.items()}
            self._notes[f"stopped on request: {done} of {self._options.repeat} repetitions are compared"] = None
            self._report()
        return EXIT_INTERRUPTED

    def _report(self) -> None:
        baseline = self._options.variants[0].name
        comparison = compare(self._runs, baseline, seed=self._options.seed)
        audits, again = self._audits(baseline)
        notes = list(self._notes)
        written = write_comparison(self._directory, comparison, audits, again, notes)
        paths = {"compare": written, "replays": self._directory}
        if self._options.summary is Summary.json:
            shown(lambda: typer.echo(comparison_json(comparison, audits, paths, notes, repeated=again)))
        else:
            shown(lambda: print_comparison(comparison, audits, paths, notes, repeated=again))

    def _audits(self, baseline: str) -> tuple[list[Audit], list[Repeatability]]:
        """Of the first repetition's outputs; how close a decision was is asked of the model again."""
        base = self._runs[baseline][0].outputs
        longest = max((self._prompts.tokens[id_].size + tokens.size for id_, tokens in base.items()), default=1)
        config = parts.place_threads(self._options, self._options.context_config())
        with Scorer(self._model, config, padded(longest)) as scorer:
            gap = _gaps(scorer, self._prompts.tokens, base)
            others = [variant.name for variant in self._options.variants[1:]]
            audits = [audit(name, base, self._runs[name][0].outputs, gap) for name in others]
        again = [repeatability(name, [run.outputs for run in runs]) for name, runs in self._runs.items()]
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
