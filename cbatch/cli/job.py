"""One run from start to end: put the parts together, drive them, leave all on disk, say what happened."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import typer

from cbatch.cli import parts
from cbatch.cli.auto import Auto, auto_options
from cbatch.cli.calibrate import Calibrator, run_ahead
from cbatch.cli.control import Control
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, recorded, shown
from cbatch.cli.identity import Identity, identity_of, note_stdin
from cbatch.cli.interpreter import tune_interpreter
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.job_notes import findings, left_over, resuming
from cbatch.cli.options import Summary
from cbatch.cli.overflow import overflow_notes, overflow_of
from cbatch.cli.record import describe_end, describe_run, sessions_of
from cbatch.cli.run_options import RunOptions
from cbatch.cli.run_rows import RunRows
from cbatch.cli.sizing import cells_needed
from cbatch.cli.workdir import Earlier, earlier_run, held, make_way
from cbatch.clock import WallClock
from cbatch.config import Overflow, SchedulerConfig
from cbatch.driver import Driver, Ending, Outcome
from cbatch.engine import Engine
from cbatch.errors import Interrupted
from cbatch.feed import LookAhead, Quarantine
from cbatch.inputs import RowStream
from cbatch.llama.estimate import check_memory
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import RunAccumulator
from cbatch.outputs import output_paths
from cbatch.report.layout import json_line
from cbatch.report.progress import Progress
from cbatch.report.summary import print_summary, summary_json
from cbatch.report.view import View, run_view
from cbatch.supervise import Link
from cbatch.supervise.watched import Watch, WatchedRunner
from cbatch.types import Job, Observer


def run_job(options: RunOptions, link: Link) -> int:
    """Run the job of options that were checked; returns the exit code.

    Raises `CbatchError` where it can't begin or breaks off.
    """
    tune_interpreter()
    model_config, warning = parts.check_model(options)
    identity = identity_of(options, model_config.path)
    said = None if link.heartbeat.way_made else make_way(options)
    link.heartbeat.way_made = True
    with held(options.directory()):
        earlier = earlier_run(options, identity)
        if earlier is not None and earlier.complete and "-" not in options.inputs:
            return _nothing_to_do(options, earlier)
        record = None if earlier is None else earlier.record
        options, auto = auto_options(options, model_config, options.given, enabled=options.auto, earlier=record)
        if options.memory_check:
            check_memory(model_config.path, model_config, options.context_config())
        with Model(model_config) as model:
            job = RunJob(options, link, identity, earlier, auto, model)
            link.on_orphaned = job.control.abort
            with Interrupts(job.control.stop, job.control.abort, interrupt=link.interrupt):
                with job.view as view:
                    for message in (warning, said):
                        if message is not None:
                            view.message(message)
                    job.run()
                return job.report()


def _nothing_to_do(options: RunOptions, earlier: Earlier) -> int:
    """Say so."""
    failed = earlier.stored.num_failed
    hint = f", {failed:,} of them failed (--retry-failed runs those again)" if failed else ""
    where = options.target or options.directory()
    note = f"{where} is complete: {len(earlier.stored.done):,} rows{hint}; --force starts over"
    if options.summary is Summary.json:
        shown(lambda: typer.echo(json_line(earlier.record["totals"], _paths(options), [note])))
    else:
        shown(lambda: typer.echo(note))
    return EXIT_ROWS_FAILED if failed else 0


def _paths(options: RunOptions) -> Mapping[str, Path]:
    return output_paths(options.directory(), options.results_format.value, target=options.target)


@dataclass(frozen=True, slots=True)
class _Ready:
    """What a run is driven with, once its first rows are known."""

    runner: LlamaRunner
    feed: Quarantine
    rows: RowStream
    window: Sequence[Job]
    limit: int
    """KV cells that a row may fill at most."""
    overflow: Overflow
    scheduler: SchedulerConfig


class RunJob:
    """A run under way, and how it ended."""

    def __init__(
        self,
        options: RunOptions,
        link: Link,
        identity: Identity,
        earlier: Earlier | None,
        auto: Auto,
        model: Model,
    ) -> None:
        self.options = options
        self.link = link
        self.identity = identity
        self.earlier = earlier
        self.auto = auto
        self.stored = None if earlier is None else earlier.stored
        self.model = model
        self.clock = WallClock()
        if self.stored is not None:
            self.clock.restart(self.stored.clock_ns)
        self.tokenizer = Tokenizer(model)
        self.encoder = parts.make_encoder(options, model, self.tokenizer)
        self.progress = Progress(self.clock)
        self.totals = RunAccumulator(kv_bytes_per_cell(model, options.context_config()))
        self.rows = RunRows(options, link, self.clock, identity, earlier)
        self.watch = Watch(link.heartbeat, link.condemned)
        self.notes: list[str] = [
            *resuming(self.stored, retry_failed=options.retry_failed),
            f"plain prompts: {self.encoder.applied}",
        ]
        self.outcome: Outcome | None = None
        self.control = Control(self._announce)
        title = f"cbatch run  {model.config.path.stem}"
        self.view: View = run_view(
            self.progress, title, quiet=options.quiet, is_terminal=sys.stderr is not None and sys.stderr.isatty()
        )

    def run(self) -> None:
        """Answer the rows, and leave what was finished on disk, however it ends."""
        jobs = self.watch.encode(self.rows, self.encoder.encode)
        feed = Quarantine(LookAhead(self.progress.reading(jobs)), self.link.suspects, self.watch)
        self.control.steer(feed.close, feed.close)
        with closing(self.encoder), closing(feed):
            window, all_read = feed.first_window(parts.PATIENCE_S)
            if self.control.stop_wanted:
                raise Interrupted("stopped before any row was run; nothing was written")
            if (rows := self._opened(feed, window)) is None:
                return
            note_stdin(self.identity, self.link.stdin_head, self.link.heartbeat.stdin_read)
            if self.auto.open and self.link.attempt == 0:  # else it may be what the worker before this one died of
                calibrator = Calibrator(self.options, self.model, self.clock, say=self.view.message)
                ahead = run_ahead(self.options, rows, window, all_read=all_read)
                self.options, self.auto = calibrator.settle(self.options, self.auto, ahead, self.control)
            limit, needs = parts.most_cells(self.options, self.model), cells_needed(window)
            context, note = parts.size_for_rows(self.options, self.model, needs, all_read=all_read, limit=limit)
            self.notes += [self.auto.line, *([] if note is None else [note])]
            grows_to = 0 if self.options.ctx is not None else limit
            runner = LlamaRunner(self.model, self.tokenizer, context, self.clock, max_cells=grows_to)
            with closing(runner):
                overflow = overflow_of(self.options, runner.context, limit)
                self._record(_Ready(runner, feed, rows, window, limit, overflow, parts.scheduler_config(self.options)))

    def _opened(self, feed: Quarantine, window: Sequence[Job]) -> RowStream | None:
        """What the rows come from; None where an earlier run has a result of each. Raises what kept it from opening."""
        nothing_new = not window and self.earlier is not None and self.earlier.complete
        if nothing_new or self.rows.stream is None:
            feed.check()
        return None if nothing_new else self.rows.stream

    def _record(self, ready: _Ready) -> None:
        """Drive the run between the two writings of run.json."""
        context, template = ready.runner.context, self.encoder.applied
        record = {
            **describe_run(self.options, self.model, context, ready.scheduler, ready.overflow, template),
            "identity": self.identity,
            "auto": self.auto.to_dict(),
            **sessions_of(None if self.earlier is None else self.earlier.record),
        }

        def ending(status: str, error: str | None) -> dict[str, Any]:
            note_stdin(self.identity, self.link.stdin_head, self.link.heartbeat.stdin_read)
            summary = self.totals.summary()
            return describe_end(status, summary, context=ready.runner.context, notes=self.notes, error=error)

        with recorded(self.options.directory(), record, ending) as end:
            self.outcome = self._drive(ready)
            summary, total = self.totals.summary(), self.progress.figures().rows_total
            self.notes += findings(summary, overcommits=self.options.kv_overcommit)
            self.notes += left_over(self.outcome, total, ready.feed.num_ready, summary, again=self.options.again)
            end(self.outcome.ending.value)

    def _drive(self, ready: _Ready) -> Outcome:
        engine = Engine(WatchedRunner(ready.runner, self.watch), ready.scheduler, log_calls=False)
        with parts.make_writer(
            self.options,
            self.options.directory(),
            ready.window,
            self.model,
            self.encoder,
            self.clock,
            carried_types=ready.rows.carried_types,
            order=self.options.order,
            target=self.options.target,
            stored=self.stored,
        ) as writer:
            observers: list[Observer] = [writer, self.totals, self.progress, self.watch, ready.feed]
            driver = Driver(engine, ready.feed, observers, max_cells=ready.limit, overflow=ready.overflow)
            self.control.steer(driver.stop, driver.abort)
            outcome = driver.run()
            self.watch.ending()
            if outcome.ending is Ending.COMPLETE:
                ready.rows.check_unchanged()
                writer.complete()
        self.notes += overflow_notes(driver, ready.runner.context, ready.limit, "rows")
        return outcome

    def _announce(self) -> None:
        self.progress.stopping()
        if not self.control.abort_wanted:
            self.view.message("stopping: finishing the rows that run (Ctrl-C again stops now)")

    def report(self) -> int:
        """Print the summary; returns the exit code."""
        if self.outcome is None:
            assert self.earlier is not None
            return _nothing_to_do(self.options, self.earlier)
        summary, paths = self.totals.summary(), _paths(self.options)
        if self.options.summary is Summary.json:
            shown(lambda: typer.echo(summary_json(summary, paths, self.notes)))
        else:
            shown(lambda: print_summary(summary, paths, self.notes))
        if self.outcome.ending is not Ending.COMPLETE:
            return EXIT_INTERRUPTED
        kept = 0 if self.stored is None or self.options.retry_failed else self.stored.num_failed
        return EXIT_ROWS_FAILED if summary.rows_failed + kept else 0
