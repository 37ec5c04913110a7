"""`cbatch run --dry-run`: looks at a job's first rows and tries some of them on the real engine. Writes no file.

The parts are those of `cbatch.cli.job`, so what is shown is what a run would do. The answers of the trial are dropped.
"""

from __future__ import annotations

import sys
import threading
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from itertools import islice

import numpy as np
import typer

from cbatch.cli import parts
from cbatch.cli.auto import auto_options
from cbatch.cli.control import Control
from cbatch.cli.ending import EXIT_ROWS_FAILED, SWITCH_INTERVAL_S, shown
from cbatch.cli.first_rows import FittedRows, prompt_views, read_inputs, rows_in_all
from cbatch.cli.interrupts import Interrupts
from cbatch.cli.job_time import Trial, estimate, spread
from cbatch.cli.options import Summary
from cbatch.cli.overflow import overflow_of
from cbatch.cli.run_options import RunOptions
from cbatch.cli.sizing import cells_needed
from cbatch.clock import WallClock
from cbatch.driver import Driver, Ending
from cbatch.engine import Engine
from cbatch.errors import Interrupted
from cbatch.feed import LookAhead
from cbatch.inputs import RowStream
from cbatch.llama.estimate import check_memory
from cbatch.llama.memory import kv_bytes
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics.preview import Estimate, MemoryFit, Preview
from cbatch.report.preview import preview_json, print_preview
from cbatch.types import Job, Request, RowRef

SHOWN_ROWS = 3
TRIAL_S = 8.0
_PATIENCE_S = 20.0
"""For a trial's steps, which can only be broken off."""
_PART, _PART_OUTPUT = 64, 8
"""Most tokens of prompt and output of a part of a row."""
_MOST_TRIED = 1000
"""Rows."""


def dry_run(options: RunOptions, *, num_shown: int = SHOWN_ROWS, seconds: float = TRIAL_S) -> int:
    """Print what the job would be like, after trying it for `seconds` at most; returns the exit code.

    0, or 3 if rows of the first window can't be run. Raises `CbatchError` where the job couldn't begin.
    """
    sys.setswitchinterval(SWITCH_INTERVAL_S)
    clock = WallClock()
    rows = read_inputs(options, clock)
    config, warning = parts.check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    options, auto = auto_options(options, config, options.given, enabled=options.auto)
    if options.memory_check:
        check_memory(config.path, config, options.context_config())
    with Model(config) as model:
        job = DryRun(options, clock, model, [auto.line])
        with Interrupts(job.control.abort, job.control.abort):
            preview = job.preview(rows, num_shown, seconds)
    if options.summary is Summary.json:
        shown(lambda: typer.echo(preview_json(preview)))
    else:
        shown(lambda: print_preview(preview))
    return EXIT_ROWS_FAILED if preview.faults else 0


class DryRun:
    """A look at one job."""

    def __init__(self, options: RunOptions, clock: WallClock, model: Model, notes: Sequence[str] = ()) -> None:
        self._options = options
        self._notes = notes
        self._clock = clock
        self._model = model
        self._tokenizer = Tokenizer(model)
        self._encoder = parts.make_encoder(options, model, self._tokenizer)
        self.control = Control()

    def preview(self, rows: RowStream, num_shown: int, seconds: float) -> Preview:
        """Raises `Interrupted` where the user asked to stop."""
        feed = LookAhead(parts.encode_rows(rows, self._encoder))
        self.control.steer(feed.close, feed.close)
        with closing(self._encoder), closing(feed):
            window, all_read = feed.first_window(parts.PATIENCE_S)
            self._check_stop()
            feed.check()
        limit = parts.most_cells(self._options, self._model)
        context, note = parts.size_for_rows(
            self._options, self._model, cells_needed(window), all_read=all_read, limit=limit
        )
        with closing(LlamaRunner(self._model, self._tokenizer, context, self._clock)) as runner:
            fitted = FittedRows.of(window, limit, overflow_of(self._options, runner.context, limit))
            total = len(window) if all_read else rows_in_all(self._options, rows.num_rows, window)
            time = self._time(runner, fitted, len(window), total, seconds)
            memory = self._memory(runner, fitted, limit)
        self._check_stop()
        return Preview(
            rows_read=len(window),
            all_read=all_read,
            prompts=tuple(prompt_views(fitted.jobs[:num_shown], self._tokenizer)),
            faults=fitted.fault_views(),
            lengths=fitted.lengths(),
            memory=memory,
            estimate=time,
            notes=(*([] if note is None else [note]), f"plain prompts: {self._encoder.applied}", *self._notes),
        )

    def _check_stop(self) -> None:
        if self.control.stop_wanted:
            raise Interrupted("stopped; nothing was written")

    def _memory(self, runner: LlamaRunner, rows: FittedRows, limit: int) -> MemoryFit:
        context = runner.context
        return rows.memory(
            context.resolved,
            cells_per_seq=context.cells_per_seq,
            total_cells=context.total_cells,
            kv_bytes=kv_bytes(self._model, context.config),
            most_cells=limit,
            policy=self._options.on_overflow,
        )

    def _time(
        self, runner: LlamaRunner, rows: FittedRows, read: int, total: int | None, seconds: float
    ) -> Estimate | None:
        load_s = self._clock.now_ns() / 1e9
        trial = self._try(runner, rows.jobs, seconds)
        capacity = runner.capacity
        need = np.mean(cells_needed(rows.jobs)) if rows.jobs else 1
        return estimate(
            trial,
            rows.requests,
            slots=min(capacity.max_num_seqs, max(1, int(capacity.total_cells / need))),
            rows_read=read,
            rows_total=total,
            load_s=load_s,
        )

    def _try(self, runner: LlamaRunner, jobs: Sequence[tuple[RowRef, Request]], seconds: float) -> Trial:
        """Run parts of rows, alone and in all slots, to see what tokens cost; then rows from all over the window."""
        trial, capacity = Trial(), runner.capacity
        fitting = (jobs[i] for i in spread(len(jobs)) if jobs[i][1].cells_needed <= capacity.cells_per_seq)
        # in this order, whatever their own
        tried = [(ref, replace(request, arrival_ns=0, priority=0)) for ref, request in islice(fitting, _MOST_TRIED)]
        if not tried:
            return trial
        if not self._options.quiet:
            typer.echo(f"cbatch: trying rows on the engine, for up to {seconds:g} s", err=True)
        scheduler = replace(parts.scheduler_config(self._options), drain="arrival")
        engine, begun = Engine(runner, scheduler, log_calls=False), self._clock.now_ns()

        def drive(some: Sequence[Job], share: float) -> bool:
            return self._drive(engine, some, trial, begun + round(share * seconds * 1e9))

        goes_on = drive([_part(*tried[0], _PART)], 1 / 4)
        slots = tried[: capacity.max_num_seqs]
        if goes_on and (size := min(_PART, self._affordable(trial, seconds / 8) // len(slots))):
            goes_on = drive([_part(*job, size) for job in slots], 1 / 2)
        trial.begin_rows()
        while goes_on and tried and (left := seconds - (self._clock.now_ns() - begun) / 1e9) > 0:
            # with more at once, prompts would take all the time that is left
            tokens = np.cumsum([request.prompt.size for _, request in tried])
            count = int(np.searchsorted(tokens, self._affordable(trial, left / 2), side="right"))
            if count > 0 or not trial.outputs:
                goes_on = drive(tried[: max(1, count)], 1)
            tried = tried[max(1, count) :]
        return trial

    @staticmethod
    def _affordable(trial: Trial, seconds: float) -> int:
        """Prompt tokens that can be computed in that time."""
        prompt_ns = trial.prompt_ns()
        return 0 if prompt_ns is None else int(seconds * 1e9 / prompt_ns)

    def _drive(self, engine: Engine, jobs: Sequence[Job], trial: Trial, until_ns: int) -> bool:
        """Run the jobs until then; a step that goes on for long after that is broken off.

        Whether the engine can go on: not when it was broken off, by us or by the user.
        """
        most = engine.runner.capacity.cells_per_seq
        with closing(LookAhead(jobs)) as feed:
            driver = Driver(engine, feed, [trial], max_cells=most, deadline_ns=until_ns)
            self.control.steer(driver.abort, driver.abort)
            timer = threading.Timer(_PATIENCE_S, driver.abort)
            timer.start()
            try:
                return driver.run().ending is not Ending.ABORTED
            finally:
                timer.cancel()


def _part(ref: RowRef, request: Request, size: int) -> Job:
    """The last `size` tokens of the row's prompt, and a short answer: small enough for any model."""
    few = replace(request.sampling, max_tokens=min(_PART_OUTPUT, request.sampling.max_tokens), n=1, best_of=None)
    return ref, replace(request, prompt=request.prompt[-size:], sampling=few, fork_seeds=(), max_cells=None)
