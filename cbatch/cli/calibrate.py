"""A quick calibration where nothing was tuned: for long jobs only, once for a command, and kept for jobs like it."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import typer

from cbatch.cli import parts
from cbatch.cli.auto import NO_PROFILE, Auto, Options, in_words
from cbatch.cli.control import Control
from cbatch.cli.first_rows import rows_in_all
from cbatch.cli.job_time import shared_tokens
from cbatch.cli.options import JobOptions
from cbatch.cli.output_lengths import may_end
from cbatch.cli.run_options import RunOptions
from cbatch.clock import Clock
from cbatch.errors import EngineError, OutputError, UsageError
from cbatch.inputs import RowStream
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.outputs import utc_now
from cbatch.tune.calibration import Calibration, calibration_path, lengths_of, load_calibration, save_calibration
from cbatch.tune.goal import spread
from cbatch.tune.mix import Mix, until
from cbatch.tune.profile import profile_key
from cbatch.tune.quick import BUDGET_S, LEAST_JOB_S, Work, calibrate, differing
from cbatch.tune.setting import SLOTS, Setting, built_in
from cbatch.tune.workbench import Workbench
from cbatch.types import Job, Request, RowFault

_MOST_ROWS = 256
"""That are looked at for what the job is like."""


@dataclass(frozen=True, slots=True)
class Ahead:
    """What is known of a job before it begins."""

    window: Sequence[Job]
    rows: int
    """In all, or as far as they are known."""
    span_s: float = 0.0
    """Its requests don't come faster."""
    most_s: float = math.inf
    """It is ended then."""


def run_ahead(options: RunOptions, rows: RowStream, window: Sequence[Job], *, all_read: bool) -> Ahead:
    """Of the look-ahead window of a run."""
    total = len(window) if all_read else rows_in_all(options, rows.num_rows, window)
    return Ahead(window, len(window) if total is None else total)


class Calibrator:
    """Of one command, whose jobs all take what it found.

    `like` are the options that it calibrates for, `plays` is how often the command does each job, and `say` takes a
    line for the user, by default to stderr. It never makes a job fail.
    """

    def __init__(
        self,
        like: JobOptions,
        model: Model,
        clock: Clock,
        *,
        plays: int = 1,
        say: Callable[[str], None] | None = None,
    ) -> None:
        self._like = like
        self._model = model
        self._clock = clock
        self._plays = plays
        self._say = say if say is not None else self._echo
        self._found: Auto | None = None

    def settle(self, options: Options, auto: Auto, ahead: Ahead, control: Control) -> tuple[Options, Auto]:
        """The options with the fastest kernels, where `auto` left them open. A wish to stop ends it soon."""
        if not auto.open:
            return options, auto
        if self._found is None:
            self._found = self._find(ahead, control)
        return replace(options, **self._found.settings), self._found

    def _echo(self, message: str) -> None:
        if not self._like.quiet:
            typer.echo(f"cbatch: {message}", err=True)

    def _find(self, ahead: Ahead, control: Control) -> Auto:
        requests = [job[1] for job in ahead.window if not isinstance(job, RowFault)]
        if self._model.offloaded or not requests:  # on a GPU there is little to choose
            return Auto(NO_PROFILE, {})
        try:
            return self._of_mix(
                _mix(requests, shares=self._like.scheduler_config().prefix_cache_bytes > 0), ahead, control
            )
        except (EngineError, UsageError, OSError) as error:
            return Auto(f"no profile and no calibration ({error}): defaults; cbatch tune measures this machine", {})

    def _of_mix(self, mix: Mix, ahead: Ahead, control: Control) -> Auto:
        default = replace(built_in(self._model), ubatch=self._like.ubatch, threads=self._like.threads)
        mask = self._like.context_config().cpus
        key = {**profile_key(self._model.config, mask), "ubatch": default.ubatch, "threads_given": default.threads}
        path = calibration_path(key)
        known, slots = load_calibration(path), min(self._like.max_num_seqs, ahead.rows, SLOTS)
        if known is not None and known.fits(mix, slots):
            return _auto(f"calibrated on {known.date}", known, str(path))
        found = self._measure(default, mix, slots, ahead, control)
        if found is None:
            return Auto(NO_PROFILE, {})
        try:
            save_calibration(path, found, key)
        except OutputError as error:
            self._say(f"the calibration can't be kept for the next job: {error}")
            return _auto(f"calibrated in {found.seconds:.0f} s", found, None)
        return _auto(f"calibrated in {found.seconds:.0f} s", found, str(path))

    def _measure(self, default: Setting, mix: Mix, slots: int, ahead: Ahead, control: Control) -> Calibration | None:
        """None where the job is short."""
        like = self._like
        workbench = Workbench(
            self._model,
            Tokenizer(self._model),
            like.context_config(),
            lambda config: parts.place_threads(like, config),
            self._clock,
        )
        work = Work(mix, ahead.rows * self._plays, ahead.span_s * self._plays, ahead.most_s * self._plays)
        found = calibrate(
            workbench,
            default,
            work,
            slots,
            goes_on=lambda: not control.stop_wanted,
            begins=lambda: self._say(f"no profile: calibrating for up to {BUDGET_S:g} s"),
            budget_s=BUDGET_S,
            least_job_s=LEAST_JOB_S,
        )
        if found is None:
            return None
        settings = differing(found.setting, default)
        return Calibration(utc_now(), settings, lengths_of(mix), slots, found.ratio, found.seconds)


def _auto(since: str, found: Calibration, path: str | None) -> Auto:
    return Auto(f"{since}: {in_words(found.settings) or 'the defaults'}", dict(found.settings), path)


def _mix(requests: Sequence[Request], *, shares: bool) -> Mix:
    """Of some of them from all over; those that may end earlier get half of their max_tokens."""
    some = spread(requests, _MOST_ROWS)
    expected = [until(each, max(1, each.sampling.max_tokens // 2)) if may_end(each) else each for each in some]
    return Mix.of(expected, shared_tokens(each.prompt for each in expected) if shares else 0)
