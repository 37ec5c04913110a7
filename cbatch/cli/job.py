"""One run from start to end: put the parts together, drive them, leave all on disk, say what happened."""

from __future__ import annotations

import sys
from collections.abc import Iterable
from contextlib import closing
from pathlib import Path
from typing import Any

import typer

from cbatch.cli import parts
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.options import RunOptions, Summary
from cbatch.cli.record import complete, describe_run
from cbatch.clock import WallClock
from cbatch.driver import Driver, Ending, Outcome
from cbatch.engine import Engine
from cbatch.errors import CbatchError, RunFailed
from cbatch.feed import LookAhead
from cbatch.inputs import read_rows
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import RunAccumulator, RunSummary
from cbatch.outputs import RunWriter, check_directory, prepare_directory, write_run_json
from cbatch.report.progress import Progress
from cbatch.report.summary import print_summary, summary_json
from cbatch.report.view import View, choose_view
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
    model_config, warning = parts.check_model(options)
    check_directory(directory, options.force)
    with Model(model_config) as model:
        job = RunJob(options, directory, clock, model)
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
        title = f"cbatch run  {model.description}"
        self.view: View = choose_view(self.progress, quiet=options.quiet, is_terminal=sys.stderr.isatty(), title=title)

    def run(self, rows: Iterable[Row | RowFault]) -> None:
        """Answer the rows, and leave what was finished on disk, however it ends."""
        feed = LookAhead(self.progress.reading(parts.encode_rows(rows, self.encoder)))
        with closing(feed):
            window = feed.first_window(_PATIENCE_S)
            context = parts.size_for_rows(self.options, self.model, window, all_read=feed.ended)
            if context.max_num_seqs < self.options.max_num_seqs and not feed.ended:
                self.notes.append(f"memory allows {context.max_num_seqs} slots of {context.cells_per_seq} KV cells")
            limit = parts.most_cells(self.options, self.model)
            grows_to = 0 if self.options.ctx is not None else limit
            runner = LlamaRunner(self.model, self.tokenizer, context, self.clock, max_cells=grows_to)
            with closing(runner):
                self._drive(Engine(runner, self.options.scheduler_config(), self.clock), runner, feed, window, limit)

    def _drive(self, engine: Engine, runner: LlamaRunner, feed: LookAhead, window: list[Job], limit: int) -> None:
        prepare_directory(self.directory, self.options.force)
        record = describe_run(self.options, self.model, runner.context, self.encoder.applied)
        write_run_json(self.directory, record)
        with self._writer(window) as writer:
            driver = Driver(engine, feed, [writer, self.totals, self.progress], max_cells=limit)
            try:
                with Interrupts(lambda: self._stop(driver), driver.abort):
                    self.outcome = driver.run()
            except CbatchError as error:
                writer.close()
                write_run_json(self.directory, complete(record, "failed", self.totals.summary(), str(error)))
                raise RunFailed(f"{error} (what was finished is in {self.directory})") from error
        if driver.max_tokens_cut:
            self.notes.append(f"{driver.max_tokens_cut} rows had max_tokens cut to what the context of {limit} holds")
        write_run_json(self.directory, complete(record, self.outcome.ending.value, self.totals.summary(), None))

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

    def _stop(self, driver: Driver) -> None:
        driver.stop()
        self.progress.stopping()
        self.view.message("stopping: finishing the rows that run (Ctrl-C again stops now)")

    def report(self) -> int:
        """Print the summary; returns the exit code."""
        assert self.outcome is not None
        summary = self.totals.summary()
        notes = [*self.notes, *self._findings(summary)]
        if self.options.summary is Summary.json:
            typer.echo(summary_json(summary, self._paths(), notes))
        else:
            print_summary(summary, self._paths(), notes)
        if self.outcome.ending is not Ending.COMPLETE:
            return EXIT_INTERRUPTED
        return EXIT_ROWS_FAILED if summary.rows_failed else 0

    def _findings(self, summary: RunSummary) -> list[str]:
        """What the user should know of how it went."""
        found = []
        if length := summary.finish_reasons.get("length", 0):
            found.append(f"{length:,} rows ended at their max_tokens: raise --max-tokens where that cut them off")
        if summary.rows_failed:
            found.append(f"{summary.rows_failed:,} rows failed: see error_code and error in the results")
        if self.outcome is not None and self.outcome.ending is not Ending.COMPLETE:
            total = self.progress.figures().rows_total
            left = f"{total - summary.rows_total:,}" if total is not None else f"at least {self.outcome.rows_left:,}"
            found.append(f"{self.outcome.ending.value} on request: {left} rows are left without a result")
        return found

    def _paths(self) -> dict[str, Any]:
        results = "results" if self.options.output_format.value == "parquet" else "results.jsonl"
        names = {"results": results, "requests": "requests.parquet", "steps": "steps.parquet", "run": "run.json"}
        return {what: self.directory / name for what, name in names.items()}


def _ref(job: Job) -> RowRef:
    return job.ref if isinstance(job, RowFault) else job[0]
