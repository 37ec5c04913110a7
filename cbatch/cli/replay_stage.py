"""A model made ready for replays, and the playing of one. Prints no summary and knows no sweep."""

from __future__ import annotations

import math
import sys
from collections.abc import Sequence
from contextlib import ExitStack, closing
from dataclasses import dataclass
from itertools import islice
from pathlib import Path
from typing import Any

from cbatch.cli import parts
from cbatch.cli.auto import Auto
from cbatch.cli.calibrate import Ahead, Calibrator
from cbatch.cli.control import Control
from cbatch.cli.ending import recorded
from cbatch.cli.overflow import overflow_notes, overflow_of
from cbatch.cli.record import describe_end, describe_run
from cbatch.cli.replay_notes import conditions, findings
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.replay_source import Load, Source
from cbatch.cli.sizing import cells_needed, cells_wanted
from cbatch.clock import WallClock
from cbatch.config import REFUSE
from cbatch.driver import Ending, Outcome
from cbatch.engine import Engine
from cbatch.errors import Interrupted
from cbatch.feed import LookAhead, PacedArrivals
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import ReplayAccumulator, ReplaySummary
from cbatch.outputs import prepare_directory
from cbatch.replay import Replay, warm_up
from cbatch.report.replay_progress import ReplayProgress
from cbatch.report.timeline import TimelineWriter
from cbatch.report.view import View, replay_view
from cbatch.types import Job, Observer, RowFault

WINDOW = 1_000
"""Requests made ready ahead of their time."""


@dataclass(frozen=True, slots=True)
class Played:
    """A replay that has ended."""

    summary: ReplaySummary
    outcome: Outcome
    notes: tuple[str, ...]


class Stage:
    """Everything that several replays share. Close it before the model.

    `auto` says where the engine's settings come from, and `calibrator` finds those that it leaves open.
    """

    def __init__(
        self,
        options: ReplayOptions,
        source: Source,
        clock: WallClock,
        model: Model,
        auto: Auto,
        calibrator: Calibrator,
    ) -> None:
        self.control = Control(self._announce)
        self.options = options
        """As they are played, once the first replay has begun."""
        self.auto = auto
        """The same."""
        self._calibrator = calibrator
        self._source = source
        self._clock = clock
        self._model = model
        self._tokenizer = Tokenizer(model)
        self._encoder = parts.make_encoder(options, model, self._tokenizer)
        self._limit = parts.most_cells(options, model)
        self._overflow = REFUSE
        self._runner: LlamaRunner | None = None
        self._engine: Engine | None = None
        self._size_note: str | None = None
        self._progress: ReplayProgress | None = None
        self._view: View | None = None

    def close(self) -> None:
        self._encoder.close()
        if self._runner is not None:
            self._runner.close()

    def play(self, directory: Path, rate: float | None, title: str, *, observers: Sequence[Observer] = ()) -> Played:
        """One replay, written to `directory`. Raises `Interrupted` where it was stopped before it began."""
        load = self._source.load(rate, self._model, self._tokenizer, self._encoder, self._limit)
        with closing(LookAhead(load.jobs, window=WINDOW)) as ahead:
            self.control.steer(ahead.close, ahead.close)
            window, all_read = ahead.first_window(parts.PATIENCE_S)
            runner, engine = self._made(load, window, all_read=all_read)
            self._warm_up(engine, window)
            if self.control.stop_wanted:
                raise Interrupted("stopped before any request was played; nothing was written")
            prepare_directory(directory, self.options.force)
            cell = kv_bytes_per_cell(self._model, runner.context.config)
            act = _Act(self.options, load, ahead, window, directory, title, observers, cell)
            return self._record(act, engine, runner)

    def _made(self, load: Load, window: Sequence[Job], *, all_read: bool) -> tuple[LlamaRunner, Engine]:
        """One engine for all replays: it knows what they leave in the slots."""
        if self._runner is None or self._engine is None:
            self._settle(load, window)
            known = self._source.needs
            needs = cells_needed(window) if known is None else known
            self.options = self.options.with_room_for(cells_wanted(needs, self._limit)[0])
            self._runner = self._make_runner(needs, all_read=all_read or known is not None)
            self._overflow = overflow_of(self.options, self._runner.context, self._limit)
            logs = self.options.timeline is not None
            self._engine = Engine(self._runner, parts.scheduler_config(self.options), log_calls=logs)
        return self._runner, self._engine

    def _settle(self, load: Load, window: Sequence[Job]) -> None:
        """Without a profile, by a calibration if the replay is long."""
        span_s = 0.0 if self.options.closed_loop or load.span_s is None else load.span_s
        most_s = math.inf if self.options.duration is None else self.options.duration + self.options.grace_period
        ahead = Ahead(window, len(window) if load.total is None else load.total, span_s, most_s)
        self.options, self.auto = self._calibrator.settle(self.options, self.auto, ahead, self.control)

    def _make_runner(self, needs: Sequence[int], *, all_read: bool) -> LlamaRunner:
        options = self.options
        context, self._size_note = parts.size_for_rows(
            options, self._model, needs, all_read=all_read, limit=self._limit
        )
        grows_to = 0 if options.ctx is not None else self._limit
        return LlamaRunner(self._model, self._tokenizer, context, self._clock, max_cells=grows_to)

    def _warm_up(self, engine: Engine, window: Sequence[Job]) -> None:
        requests = (job[1] for job in window if not isinstance(job, RowFault))
        first = islice(requests, self.options.num_warmups)
        limit, overflow = self._limit, self._overflow
        warm_up(engine, first, max_cells=limit, overflow=overflow, wanted=lambda: not self.control.stop_wanted)

    def _record(self, act: _Act, engine: Engine, runner: LlamaRunner) -> Played:
        """Play between the two writings of run.json."""
        sized = [] if self._size_note is None else [self._size_note]
        notes = [*conditions(self.options), *self._source.notes, *sized]
        scheduler, template = engine.scheduler.config, self._encoder.applied
        record = {
            **describe_run(self.options, self._model, runner.context, scheduler, self._overflow, template),
            "auto": self.auto.to_dict(),
            "replay": {**self._source.describe(), **act.describe()},
        }

        def ending(status: str, error: str | None) -> dict[str, Any]:
            return describe_end(status, act.totals.summary(), context=runner.context, notes=notes, error=error)

        with recorded(act.directory, record, ending) as end:
            replay, outcome = self._drive(act, engine)
            summary = act.totals.summary()
            notes += overflow_notes(replay.driver, runner.context, self._limit, "requests")
            notes += findings(summary, outcome)
            end(outcome.ending.value)
        return Played(summary, outcome, tuple(notes))

    def _drive(self, act: _Act, engine: Engine) -> tuple[Replay, Outcome]:
        """A replay, and how it ended."""
        feed = PacedArrivals(act.ahead, self._clock, self.options.pacing())
        progress = act.progress(self._clock, feed)
        with ExitStack() as stack:
            view = stack.enter_context(act.view(progress))
            self._progress, self._view = progress, view
            writer = parts.make_writer(self.options, act.directory, act.window, self._model, self._encoder, self._clock)
            observers: list[Observer] = [act.totals, progress, stack.enter_context(writer), *act.observers]
            if self.options.timeline is not None:
                observers.append(stack.enter_context(closing(TimelineWriter(self.options.timeline))))
            deadline_ns = self.options.deadline_ns()
            replay = Replay(
                engine, feed, observers, max_cells=self._limit, overflow=self._overflow, deadline_ns=deadline_ns
            )
            self.control.steer(replay.driver.stop, replay.driver.abort)
            self._clock.restart()
            progress.begin()
            feed.start()
            stack.callback(feed.close)
            outcome = replay.run()
            if outcome.ending in (Ending.COMPLETE, Ending.TIME_UP):
                writer.complete()
            return replay, outcome

    def _announce(self) -> None:
        if self._progress is not None:
            self._progress.stopping()
        if self._view is not None and not self.control.abort_wanted:
            self._view.message("stopping: finishing the requests that run (Ctrl-C again stops now)")


class _Act:
    """What one replay is made of beside the engine."""

    def __init__(
        self,
        options: ReplayOptions,
        load: Load,
        ahead: LookAhead,
        window: Sequence[Job],
        directory: Path,
        title: str,
        observers: Sequence[Observer],
        bytes_per_token: float,
    ) -> None:
        self.options = options
        self.load = load
        self.ahead = ahead
        self.window = window
        self.directory = directory
        self.title = title
        self.observers = observers
        self.totals = ReplayAccumulator(
            options.objectives,
            options.percentile_list(),
            load.rate,
            closed_loop=options.closed_loop,
            bytes_per_token=bytes_per_token,
        )

    def describe(self) -> dict[str, Any]:
        """JSON-ready, for run.json."""
        return {
            "requested_rate": self.load.rate,
            "closed_loop": self.options.closed_loop,
            "objectives": self.options.objectives.to_dict(),
        }

    def progress(self, clock: WallClock, feed: PacedArrivals) -> ReplayProgress:
        options, load = self.options, self.load
        spans = [None if options.closed_loop else load.span_s, options.duration]
        return ReplayProgress(
            clock,
            objectives=options.objectives,
            arrived=lambda: feed.num_arrived,
            total=load.total if options.duration is None else None,
            span_s=min((seconds for seconds in spans if seconds is not None), default=None),
        )

    def view(self, progress: ReplayProgress) -> View:
        is_terminal = sys.stderr is not None and sys.stderr.isatty()
        return replay_view(progress, self.title, quiet=self.options.quiet, is_terminal=is_terminal)
