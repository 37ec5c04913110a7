"""Replays from start to end: the parts are put together once, then played at one rate or at many."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, closing
from itertools import islice
from pathlib import Path

import typer

from cbatch.cli import parts
from cbatch.cli.control import Control
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, recorded, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import Summary
from cbatch.cli.record import describe_end, describe_run
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.replay_source import Load, Source, open_source
from cbatch.cli.sizing import cells_needed
from cbatch.clock import WallClock
from cbatch.driver import Ending, Outcome
from cbatch.engine import Engine
from cbatch.errors import Interrupted
from cbatch.feed import LookAhead, PacedArrivals
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import ReplayAccumulator, ReplaySummary
from cbatch.outputs import RunWriter, check_directory, output_paths, prepare_directory, write_sweep
from cbatch.replay import Replay, find_capacity, holds, warm_up
from cbatch.report.replay_panels import sweep_title
from cbatch.report.replay_progress import ReplayProgress
from cbatch.report.replay_summary import print_replay_summary, replay_summary_json
from cbatch.report.sweep import print_sweep, sweep_json
from cbatch.report.timeline import TimelineWriter
from cbatch.report.view import View, replay_view
from cbatch.types import Job, Observer, RowFault, RowKind, RowRef

WINDOW = 1_000
"""Requests made ready ahead of their time."""
_PATIENCE_S = 2.0


def run_replay(options: ReplayOptions) -> int:
    """Replay as the options say; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options.check()
    clock = WallClock()
    source = open_source(options, clock)
    check_directory(options.directory(), options.force)
    model_config, warning = parts.check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    with (
        Model(model_config) as model,
        closing(ReplayJob(options, source, clock, model)) as job,
        Interrupts(job.control.stop, job.control.abort),
    ):
        return job.sweep() if options.rates is not None or options.find_capacity else job.single()


class ReplayJob:
    """A model made ready, and what it plays."""

    def __init__(self, options: ReplayOptions, source: Source, clock: WallClock, model: Model) -> None:
        self.options = options
        self.source = source
        self.clock = clock
        self.model = model
        self.directory = options.directory()
        self.tokenizer = Tokenizer(model)
        self.encoder = parts.make_encoder(options, model, self.tokenizer)
        self.limit = parts.most_cells(options, model)
        self.control = Control(self._announce)
        self.notes: list[str] = list(_conditions(options))
        self._progress: ReplayProgress | None = None
        self._view: View | None = None
        self._engine: Engine | None = None
        self._runner: LlamaRunner | None = None

    def close(self) -> None:
        self.encoder.close()
        if self._runner is not None:
            self._runner.close()

    def single(self) -> int:
        """One replay."""
        summary, outcome = self._play(self.directory, self.options.request_rate, f"cbatch replay  {self._name}")
        notes = [*self.notes, *_findings(summary, outcome)]
        paths = output_paths(self.directory, self.options.output_format.value)
        if self.options.timeline is not None:
            paths["timeline"] = self.options.timeline
        if self.options.summary is Summary.json:
            shown(lambda: typer.echo(replay_summary_json(summary, paths, notes)))
        else:
            shown(lambda: print_replay_summary(summary, paths, notes))
        return _exit_code(outcome, [summary])

    def sweep(self) -> int:
        """A replay for each rate, then the search between them; a directory for each, and one table."""
        points: list[tuple[float, ReplaySummary]] = []
        outcome: Outcome | None = None
        prepare_directory(self.directory, self.options.force)

        def play(rate: float) -> ReplaySummary:
            nonlocal outcome
            if self.control.stop_wanted:
                raise Interrupted("stopped between two rates")
            of = len(rates) if not self.options.find_capacity else None
            title = sweep_title(f"cbatch replay  {self._name}", rate, len(points) + 1, of)
            summary, outcome = self._play(self.directory / f"rate-{rate:.4g}", rate, title)
            points.append((rate, summary))
            return summary

        rates = self.options.rates or ()
        try:
            self._sweep(rates, play)
        except Interrupted:
            self.notes.append("stopped on request: the rates below are those that were played to their end")
        finally:
            self._report(points)
        return _exit_code(outcome, [summary for _, summary in points])

    def _sweep(self, rates: Sequence[float], play: Callable[[float], ReplaySummary]) -> None:
        wanted = self.options.attainment
        tried = {rate: holds(play(rate), wanted) is True for rate in rates}
        if self.options.find_capacity:
            start = min(tried, default=self.source.base_rate or 1.0)
            find_capacity(lambda rate: holds(play(rate), wanted) is True, start=start, tried=tried)

    def _report(self, points: Sequence[tuple[float, ReplaySummary]]) -> None:
        if not points:
            return
        table = write_sweep(self.directory, points)
        paths, wanted = {"sweep": table, "replays": self.directory}, self.options.attainment
        if self.options.summary is Summary.json:
            shown(lambda: typer.echo(sweep_json(points, wanted, paths, self.notes)))
        else:
            shown(lambda: print_sweep(points, wanted, paths, self.notes))

    @property
    def _name(self) -> str:
        return f"{Path(self.options.sources[0]).name}  {self.model.config.path.stem}"

    def _play(self, directory: Path, rate: float | None, title: str) -> tuple[ReplaySummary, Outcome]:
        """One replay into one directory."""
        load = self.source.load(rate, self.model, self.tokenizer, self.encoder)
        with closing(LookAhead(load.jobs, window=WINDOW)) as ahead:
            self.control.steer(ahead.close, ahead.close)
            window, all_read = ahead.first_window(_PATIENCE_S)
            if self.control.stop_wanted:
                raise Interrupted("stopped before any request was played; nothing was written")
            engine, runner = self._made_ready(window, all_read=all_read)
            prepare_directory(directory, self.options.force)
            record = {
                **describe_run(self.options, self.model, runner.context, self.encoder.applied),
                **self._replay(load),
            }
            totals = ReplayAccumulator(self.options.objectives, self.options.percentile_list(), load.rate)
            with recorded(directory, record, lambda status, error: describe_end(
                status, totals.summary(), context=runner.context, notes=self.notes, error=error
            )) as end:  # fmt: skip
                outcome = self._drive(engine, ahead, load, totals, directory, title, [_ref(job) for job in window])
                end(outcome.ending.value)
            return totals.summary(), outcome

    def _made_ready(self, window: Sequence[Job], *, all_read: bool) -> tuple[Engine, LlamaRunner]:
        """The engine for this and all later replays, warm."""
        if self._engine is None or self._runner is None:
            needs, known = self.source.needs, self.source.needs is not None
            context, note = parts.size_for_rows(
                self.options,
                self.model,
                needs if needs is not None else cells_needed(window),
                all_read=known or all_read,
                limit=self.limit,
            )
            if note is not None:
                self.notes.append(note)
            grows_to = 0 if self.options.ctx is not None else self.limit
            self._runner = LlamaRunner(self.model, self.tokenizer, context, self.clock, max_cells=grows_to)
            self._engine = Engine(self._runner, self.options.scheduler_config())
            first = islice((job[1] for job in window if not isinstance(job, RowFault)), self.options.num_warmups)
            warm_up(self._engine, first, max_cells=self.limit, wanted=lambda: not self.control.stop_wanted)
        return self._engine, self._runner

    def _drive(
        self,
        engine: Engine,
        ahead: LookAhead,
        load: Load,
        totals: ReplayAccumulator,
        directory: Path,
        title: str,
        sample: list[RowRef],
    ) -> Outcome:
        options = self.options
        feed = PacedArrivals(ahead, self.clock, options.pacing())
        self._progress = progress = ReplayProgress(
            self.clock,
            objectives=options.objectives,
            arrived=lambda: feed.num_arrived,
            total=load.total if options.duration is None else None,
            span_s=_shorter(load.span_s, options.duration) if not options.closed_loop else options.duration,
        )
        with ExitStack() as stack:
            observers: list[Observer] = [totals, progress]
            self._view = stack.enter_context(
                replay_view(
                    progress, title, quiet=options.quiet, is_terminal=sys.stderr is not None and sys.stderr.isatty()
                )
            )
            observers.append(stack.enter_context(self._writer(directory, sample)))
            if options.timeline is not None:
                observers.append(stack.enter_context(closing(TimelineWriter(options.timeline))))
            replay = Replay(engine, feed, observers, max_cells=self.limit, deadline_ns=options.deadline_ns())
            self.control.steer(replay.driver.stop, replay.driver.abort)
            self.clock.restart()
            progress.begin()
            feed.start()
            stack.callback(feed.close)
            outcome = replay.run()
        if cut := replay.driver.max_tokens_cut:
            self.notes.append(f"{cut:,} requests had their output cut to what a context of {self.limit:,} cells holds")
        return outcome

    def _writer(self, directory: Path, sample: list[RowRef]) -> RunWriter:
        return RunWriter(
            directory,
            output_format=self.options.output_format.value,
            sample=sample,
            model=self.model.config.path.name,
            is_chat=self._is_chat,
            clock=self.clock,
        )

    def _is_chat(self, ref: RowRef) -> bool:
        return ref.kind is RowKind.CHAT or (ref.kind is RowKind.PROMPT and self.encoder.templates_prompts)

    def _replay(self, load: Load) -> dict[str, object]:
        options = self.options
        return {
            "replay": {
                **self.source.describe(),
                "requested_rate": load.rate,
                "closed_loop": options.closed_loop,
                "objectives": options.objectives.to_dict(),
            }
        }

    def _announce(self) -> None:
        if self._progress is not None:
            self._progress.stopping()
        if self._view is not None:
            self._view.message("stopping: finishing the requests that run (Ctrl-C again stops now)")


def _shorter(span_s: float | None, duration_s: float | None) -> float | None:
    given = [seconds for seconds in (span_s, duration_s) if seconds is not None]
    return min(given, default=None)


def _ref(job: Job) -> RowRef:
    return job.ref if isinstance(job, RowFault) else job[0]


def _conditions(options: ReplayOptions) -> Iterator[str]:
    """What the figures have to be read with."""
    limit = options.max_concurrency
    if options.closed_loop:
        yield f"closed loop: {limit:,} requests in flight, each arriving when another ends"
    elif limit is not None:
        yield f"at most {limit:,} requests in flight: the wait for a place among them counts as slip"
    elif options.request_rate == math.inf:
        yield "all requests arrive at once"


def _findings(summary: ReplaySummary, outcome: Outcome) -> list[str]:
    """What the user should know of how it went."""
    found = []
    if summary.failed:
        found.append(f"{summary.failed:,} requests failed: see error_code and error in the results")
    if outcome.ending is Ending.TIME_UP:
        found.append(f"{summary.unfinished:,} requests were unfinished when the time was up, and were cancelled")
    elif outcome.ending is not Ending.COMPLETE:
        found.append(f"{outcome.ending.value} on request: what had arrived and wasn't running was left out")
    return found


def _exit_code(outcome: Outcome | None, summaries: Sequence[ReplaySummary]) -> int:
    if outcome is None or outcome.ending in (Ending.STOPPED, Ending.ABORTED):
        return EXIT_INTERRUPTED
    return EXIT_ROWS_FAILED if any(summary.failed for summary in summaries) else 0
