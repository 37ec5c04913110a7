"""One run from start to end: put the parts together, drive them, leave all on disk, say what happened."""

from __future__ import annotations

import os
import sys
import traceback
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path

import typer

from cbatch.cli import parts
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import RunOptions, Summary
from cbatch.cli.record import describe_end, describe_run
from cbatch.cli.sizing import cells_needed
from cbatch.clock import WallClock
from cbatch.driver import Driver, Ending, Outcome
from cbatch.engine import Engine
from cbatch.errors import CbatchError, Interrupted, RunFailed
from cbatch.feed import LookAhead
from cbatch.inputs import read_rows
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import RunAccumulator, RunSummary
from cbatch.outputs import RunWriter, check_directory, output_paths, prepare_directory, write_run_json
from cbatch.report.progress import Progress
from cbatch.report.summary import print_summary, summary_json
from cbatch.report.view import View, run_view
from cbatch.types import Job, Row, RowFault, RowKind, RowRef

_PATIENCE_S = 2.0
"""How long a slow input may keep the first rows waiting for company."""
_SWITCH_INTERVAL_S = 0.0005
"""Python's default of 5 ms would let the reading thread hold up the engine between two decode calls."""
EXIT_ROWS_FAILED = 3
EXIT_INTERRUPTED = 130


def run_job(options: RunOptions) -> int:
    """Run the job; returns the exit code. Raises `CbatchError` where it can't begin or breaks off."""
    sys.setswitchinterval(_SWITCH_INTERVAL_S)
    options.check()
    clock = WallClock()
    rows = read_rows(options.inputs, defaults=options.sampling(), clock=clock)
    directory = options.directory()
    check_directory(directory, options.force)
    model_config, warning = parts.check_model(options)
    with Model(model_config) as model:
        job = RunJob(options, directory, clock, model)
        with Interrupts(job.stop, job.abort):
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
        self.totals = RunAccumulator()
        self.notes: list[str] = [f"plain prompts: {self.encoder.applied}"]
        self.outcome: Outcome | None = None
        self._driver: Driver | None = None
        self._feed: LookAhead | None = None
        self._stop_wanted = self._abort_wanted = False
        title = f"cbatch run  {model.config.path.stem}"
        self.view: View = run_view(
            self.progress, title, quiet=options.quiet, is_terminal=sys.stderr is not None and sys.stderr.isatty()
        )

    def run(self, rows: Iterable[Row | RowFault]) -> None:
        """Answer the rows, and leave what was finished on disk, however it ends."""
        self._feed = feed = LookAhead(self.progress.reading(parts.encode_rows(rows, self.encoder)))
        with closing(self.encoder), closing(feed):
            window, all_read = feed.first_window(_PATIENCE_S)
            if self._stop_wanted:
                raise Interrupted("stopped before any row was run; nothing was written")
            limit = parts.most_cells(self.options, self.model)
            needs = cells_needed(window)
            context, note = parts.size_for_rows(self.options, self.model, needs, all_read=all_read, limit=limit)
            if note is not None:
                self.notes.append(note)
            grows_to = 0 if self.options.ctx is not None else limit
            runner = LlamaRunner(self.model, self.tokenizer, context, self.clock, max_cells=grows_to)
            with closing(runner):
                self._record(runner, feed, window, limit)

    def _record(self, runner: LlamaRunner, feed: LookAhead, window: list[Job], limit: int) -> None:
        """Drive the run between the two writings of run.json."""
        prepare_directory(self.directory, self.options.force)
        record = describe_run(self.options, self.model, runner.context, self.encoder.applied)
        write_run_json(self.directory, record)

        def end(status: str, error: str | None = None) -> None:
            summary, notes = self.totals.summary(), self.notes
            ended = describe_end(status, summary, context=runner.context, notes=notes, error=error)
            write_run_json(self.directory, {**record, **ended})

        try:
            self._drive(runner, feed, window, limit)
        except Exception as error:
            known = isinstance(error, CbatchError)
            end("failed", str(error) if known else traceback.format_exc())
            reason = str(error) if known else f"unexpected {type(error).__name__}: {error} (see run.json)"
            raise RunFailed(f"{reason}; what was finished is in {self.directory}") from error
        assert self.outcome is not None
        self.notes += self._findings(self.totals.summary(), feed)
        end(self.outcome.ending.value)

    def _drive(self, runner: LlamaRunner, feed: LookAhead, window: list[Job], limit: int) -> None:
        engine = Engine(runner, self.options.scheduler_config())
        with self._writer(window) as writer:
            self._driver = Driver(engine, feed, [writer, self.totals, self.progress], max_cells=limit)
            if self._stop_wanted:
                self._driver.stop()
            if self._abort_wanted:
                self._driver.abort()
            self.outcome = self._driver.run()
        if cut := self._driver.max_tokens_cut:
            self.notes.append(f"{cut:,} rows had their max_tokens cut to what a context of {limit:,} holds")

    def _writer(self, window: list[Job]) -> RunWriter:
        return RunWriter(
            self.directory,
            output_format=self.options.output_format.value,
            sample=[_ref(job) for job in window],
            model=self.model.config.path.name,
            clock=self.clock,
            is_chat=self._is_chat,
        )

    def _is_chat(self, ref: RowRef) -> bool:
        return ref.kind is RowKind.CHAT or (ref.kind is RowKind.PROMPT and self.encoder.templates_prompts)

    def stop(self) -> None:
        """Finish what runs and begin nothing more. Any thread may call it."""
        self._stop_wanted = True
        if self._driver is not None:
            self._driver.stop()
        elif self._feed is not None:
            self._feed.close()
        self.progress.stopping()
        self.view.message("stopping: finishing the rows that run (Ctrl-C again stops now)")

    def abort(self) -> None:
        """Stop as soon as possible. Any thread may call it."""
        self._stop_wanted = self._abort_wanted = True
        if self._driver is not None:
            self._driver.abort()
        elif self._feed is not None:
            self._feed.close()
        self.progress.stopping()

    def report(self) -> int:
        """Print the summary; returns the exit code."""
        assert self.outcome is not None
        summary = self.totals.summary()
        paths = output_paths(self.directory, self.options.output_format.value)
        try:
            if self.options.summary is Summary.json:
                typer.echo(summary_json(summary, paths, self.notes))
            else:
                print_summary(summary, paths, self.notes)
        except (BrokenPipeError, SystemExit):  # rich makes one of the other; the run was fine all the same
            os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())  # what the interpreter flushes at exit
        if self.outcome.ending is not Ending.COMPLETE:
            return EXIT_INTERRUPTED
        return EXIT_ROWS_FAILED if summary.rows_failed else 0

    def _findings(self, summary: RunSummary, feed: LookAhead) -> list[str]:
        """What the user should know of how it went."""
        found = []
        if length := summary.finish_reasons.get("length", 0):
            found.append(f"{length:,} rows ended at their max_tokens: raise --max-tokens where that cut them off")
        if summary.rows_failed:
            found.append(f"{summary.rows_failed:,} rows failed: see error_code and error in the results")
        if self.outcome is not None and self.outcome.ending is not Ending.COMPLETE:
            total = self.progress.figures().rows_total
            read = self.outcome.rows_left + feed.num_ready
            left = f"{total - summary.rows_total:,}" if total is not None else f"at least {read:,}"
            found.append(f"{self.outcome.ending.value} on request: {left} rows are left without a result")
        return found


def _ref(job: Job) -> RowRef:
    return job.ref if isinstance(job, RowFault) else job[0]
