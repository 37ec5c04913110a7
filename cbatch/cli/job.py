"""One run from start to end: put the parts together, drive them, leave all on disk, say what happened."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from cbatch.cli import parts
from cbatch.cli.control import Control
from cbatch.cli.ending import EXIT_INTERRUPTED, EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, recorded, shown
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import RunOptions, Summary
from cbatch.cli.overflow import overflow_notes, overflow_of
from cbatch.cli.record import describe_end, describe_run
from cbatch.cli.sizing import cells_needed
from cbatch.clock import WallClock
from cbatch.config import Overflow
from cbatch.driver import Driver, Ending, Outcome
from cbatch.engine import Engine
from cbatch.errors import Interrupted
from cbatch.feed import LookAhead
from cbatch.inputs import read_rows
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import RunAccumulator, RunSummary
from cbatch.outputs import check_directory, output_paths, prepare_directory
from cbatch.report.progress import Progress
from cbatch.report.summary import print_summary, summary_json
from cbatch.report.view import View, run_view
from cbatch.types import Job, Row, RowFault

_SHORT = 0.05
"""Of steps, from which on it is told that KV memory held rows back."""


def run_job(options: RunOptions) -> int:
    """Run the job; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    options.check()
    clock = WallClock()
    rows = read_rows(options.inputs, defaults=options.sampling(), clock=clock)
    directory = options.directory()
    check_directory(directory, options.force)
    model_config, warning = parts.check_model(options)
    with Model(model_config) as model:
        job = RunJob(options, directory, clock, model)
        with Interrupts(job.control.stop, job.control.abort):
            with job.view as view:
                if warning is not None:
                    view.message(warning)
                job.run(rows)
            return job.report()


class RunJob:
    """A run under way, and how it ended."""

    def __init__(self, options: RunOptions, directory: Path, clock: WallClock, model: Model) -> None:
        self.options = options
        self.directory = directory
        self.clock = clock
        self.model = model
        self.tokenizer = Tokenizer(model)
        self.encoder = parts.make_encoder(options, model, self.tokenizer)
        self.progress = Progress(clock)
        self.totals = RunAccumulator(kv_bytes_per_cell(model, options.context_config()))
        self.notes: list[str] = [f"plain prompts: {self.encoder.applied}"]
        self.outcome: Outcome | None = None
        self.control = Control(self._announce)
        title = f"cbatch run  {model.config.path.stem}"
        self.view: View = run_view(
            self.progress, title, quiet=options.quiet, is_terminal=sys.stderr is not None and sys.stderr.isatty()
        )

    def run(self, rows: Iterable[Row | RowFault]) -> None:
        """Answer the rows, and leave what was finished on disk, however it ends."""
        feed = LookAhead(self.progress.reading(parts.encode_rows(rows, self.encoder)))
        self.control.steer(feed.close, feed.close)
        with closing(self.encoder), closing(feed):
            window, all_read = feed.first_window(parts.PATIENCE_S)
            if self.control.stop_wanted:
                raise Interrupted("stopped before any row was run; nothing was written")
            limit = parts.most_cells(self.options, self.model)
            needs = cells_needed(window)
            context, note = parts.size_for_rows(self.options, self.model, needs, all_read=all_read, limit=limit)
            if note is not None:
                self.notes.append(note)
            grows_to = 0 if self.options.ctx is not None else limit
            runner = LlamaRunner(self.model, self.tokenizer, context, self.clock, max_cells=grows_to)
            with closing(runner):
                overflow = overflow_of(self.options, runner.context, limit)
                self._record(runner, feed, window, limit, overflow)

    def _record(self, runner: LlamaRunner, feed: LookAhead, window: list[Job], limit: int, overflow: Overflow) -> None:
        """Drive the run between the two writings of run.json."""
        prepare_directory(self.directory, self.options.force)
        record = describe_run(self.options, self.model, runner.context, self.encoder.applied)

        def ending(status: str, error: str | None) -> dict[str, Any]:
            summary = self.totals.summary()
            return describe_end(status, summary, context=runner.context, notes=self.notes, error=error)

        with recorded(self.directory, record, ending) as end:
            self.outcome = self._drive(runner, feed, window, limit, overflow)
            self.notes += self._findings(self.totals.summary(), feed)
            end(self.outcome.ending.value)

    def _drive(
        self, runner: LlamaRunner, feed: LookAhead, window: list[Job], limit: int, overflow: Overflow
    ) -> Outcome:
        engine = Engine(runner, parts.scheduler_config(self.options))
        with parts.make_writer(self.options, self.directory, window, self.model, self.encoder, self.clock) as writer:
            driver = Driver(engine, feed, [writer, self.totals, self.progress], max_cells=limit, overflow=overflow)
            self.control.steer(driver.stop, driver.abort)
            outcome = driver.run()
        self.notes += overflow_notes(driver, runner.context, limit, "rows")
        return outcome

    def _announce(self) -> None:
        self.progress.stopping()
        if not self.control.abort_wanted:
            self.view.message("stopping: finishing the rows that run (Ctrl-C again stops now)")

    def report(self) -> int:
        """Print the summary; returns the exit code."""
        assert self.outcome is not None
        summary = self.totals.summary()
        paths = output_paths(self.directory, self.options.output_format.value)
        if self.options.summary is Summary.json:
            shown(lambda: typer.echo(summary_json(summary, paths, self.notes)))
        else:
            shown(lambda: print_summary(summary, paths, self.notes))
        if self.outcome.ending is not Ending.COMPLETE:
            return EXIT_INTERRUPTED
        return EXIT_ROWS_FAILED if summary.rows_failed else 0

    def _findings(self, summary: RunSummary, feed: LookAhead) -> list[str]:
        """What the user should know of how it went."""
        found = []
        if length := summary.finish_reasons.get("length", 0):
            found.append(f"{length:,} rows ended at their max_tokens: raise --max-tokens where that cut them off")
        if summary.short_of_memory is not None and summary.short_of_memory > _SHORT:
            more = "" if self.options.kv_overcommit else "; --kv-overcommit lets more in"
            found.append(f"rows waited for KV cells beside free slots in {summary.short_of_memory:.0%} of steps{more}")
        if summary.rows_failed:
            found.append(f"{summary.rows_failed:,} rows failed: see error_code and error in the results")
        if self.outcome is not None and self.outcome.ending is not Ending.COMPLETE:
            total = self.progress.figures().rows_total
            read = self.outcome.rows_left + feed.num_ready
            left = f"{total - summary.rows_total:,}" if total is not None else f"at least {read:,}"
            found.append(f"{self.outcome.ending.value} on request: {left} rows are left without a result")
        return found
