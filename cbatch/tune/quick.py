"""A calibration of a few seconds, before a job that has no profile: which kernels are fastest for it.

Only types of KV of 16 bits and flash attention are tried, since they decide most, cost nothing of memory and need few
trials; slots, ubatches and what a step costs are for `cbatch tune`.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cbatch.errors import EngineError
from cbatch.tune.loads import Decodes, Prompts
from cbatch.tune.mix import Mix, Speeds, speeds_of
from cbatch.tune.race import LEAST_ROUNDS, race, winner
from cbatch.tune.setting import Setting, kernels
from cbatch.tune.workbench import Workbench

BUDGET_S = 8.0
LEAST_JOB_S = 180.0
"""Shorter jobs don't earn it back: kernels differ by some percent."""
_TRIALS = 9
"""For which there should be time: of the default alone, and two rounds of a race of four."""
_PROBE = 16
"""Tokens."""


@dataclass(frozen=True, slots=True)
class Work:
    """A job, as far as its time is known before it begins."""

    mix: Mix
    rows: int
    """At least."""
    span_s: float = 0.0
    """Its requests don't come faster."""
    most_s: float = math.inf
    """It is ended then."""

    def seconds(self, row_ns: float) -> float:
        """Where a row takes so much of the machine."""
        return min(self.most_s, max(self.span_s, self.rows * row_ns / 1e9))


@dataclass(frozen=True, slots=True)
class Fastest:
    """What a calibration came to."""

    setting: Setting
    ratio: float
    """How many times as fast as the default."""
    seconds: float


def calibrate(
    workbench: Workbench,
    default: Setting,
    work: Work,
    slots: int,
    *,
    goes_on: Callable[[], bool],
    begins: Callable[[], None],
    budget_s: float = BUDGET_S,
    least_job_s: float = LEAST_JOB_S,
) -> Fastest | None:
    """The default unless others are faster by more than noise; None where the job is over in less than `least_job_s`.

    `begins` is called once it is known that it isn't; nothing more is tried once `goes_on` says so.
    Raises `EngineError` where the model is too slow for it or the default can't be run, `UsageError` where memory has
    no room.
    """
    job = _Calibration(workbench, default, work, slots, goes_on, budget_s)
    if not job.is_long(least_job_s):
        return None
    begins()
    return job.run()


@dataclass(frozen=True, slots=True)
class _Size:
    """Of a trial: `slots` sequences decode after a prompt that they share."""

    slots: int
    context: int
    """Tokens of the prompt."""
    steps: int

    @property
    def tokens(self) -> int:
        return self.context + self.slots * self.steps


_LEAST, _MOST = _Size(8, 64, 2), _Size(32, 1024, 8)


class _Calibration:
    def __init__(
        self,
        workbench: Workbench,
        default: Setting,
        work: Work,
        slots: int,
        goes_on: Callable[[], bool],
        budget_s: float,
    ) -> None:
        self._workbench = workbench
        self._default = default
        self._work = work
        self._goes_on = goes_on
        self._budget_ns = budget_s * 1e9
        self._most = _Size(min(slots, _MOST.slots), min(work.mix.context, _MOST.context), _MOST.steps)
        self._size = _Size(min(slots, _LEAST.slots), min(work.mix.context, _LEAST.context), _LEAST.steps)
        self._begun = workbench.clock.now_ns()
        self._longest_ns = 0

    def is_long(self, least_job_s: float) -> bool:
        """Whether the job takes so long. Raises `EngineError` where the model is too slow to tell soon."""
        work, mix, share_ns = self._work, self._work.mix, self._budget_ns / _TRIALS
        slowest_ns, row_tokens = share_ns / self._size.tokens, mix.prompt + mix.outputs
        if work.seconds(row_tokens * slowest_ns) < least_job_s:
            return False  # with any model that isn't too slow, so nothing has to be measured
        token_ns = self._probe()
        if token_ns > slowest_ns:
            raise self._too_slow()
        if work.seconds(row_tokens * token_ns) < least_job_s:
            return False
        self._size = self._size_for(self._trial(self._default), share_ns)
        return work.seconds(mix.row_ns(self._trial(self._default))) >= least_job_s

    def run(self) -> Fastest:
        mix = self._work.mix
        tried = [each for each in kernels(self._default, self._default, allow_kv_quant=False) if each.kv_type != "f32"]
        entrants = race(tried, self._trial, mix, time_left=self._time_left)
        others = [each for each in entrants[1:] if each.refused is None]
        if others and max(len(each.speeds) for each in others) < LEAST_ROUNDS:
            raise self._too_slow()
        best = winner(entrants, mix)
        return Fastest(best.setting, best.ratio or 1.0, self._elapsed_ns / 1e9)

    def _probe(self) -> float:
        """ns of a token where few are computed together, which is the most that it takes, about.

        A large model would take seconds for the shortest trial.
        """
        with self._workbench.bench(self._default, 1, _PROBE) as bench:
            return sum(step.total_ns for step in bench.run(Prompts((_PROBE,)))) / _PROBE

    def _size_for(self, speeds: Speeds, share_ns: float) -> _Size:
        """As much as there is time for, half of it for the prompt; where steps are long, fewer sequences."""
        least, most = self._size, self._most
        context = max(least.context, min(most.context, int(share_ns / 2 / speeds.prompt_ns)))
        seq_ns = speeds.step_ns / speeds.running  # at most: a step of many takes less for each
        slots = max(least.slots, min(most.slots, int(share_ns / 2 / (least.steps + 1) / seq_ns)))
        steps = max(least.steps, min(most.steps, int(share_ns / 2 / seq_ns / slots) - 1))
        return _Size(slots, context, steps)

    def _trial(self, setting: Setting) -> Speeds:
        """Raises as `Workbench.bench`."""
        size, begun = self._size, self._workbench.clock.now_ns()
        load = Decodes(size.slots, size.context, size.steps)
        try:
            with self._workbench.bench(setting, load.slots, load.cells) as bench:
                prompt, *decodes = bench.run(load)
            return speeds_of([prompt], decodes, size.slots)
        finally:
            self._longest_ns = max(self._longest_ns, self._workbench.clock.now_ns() - begun)

    def _time_left(self) -> bool:
        return self._goes_on() and self._elapsed_ns + self._longest_ns < self._budget_ns

    @property
    def _elapsed_ns(self) -> int:
        return self._workbench.clock.now_ns() - self._begun

    def _too_slow(self) -> EngineError:
        return EngineError(f"this model is too slow to be calibrated in {self._budget_ns / 1e9:g} s")


def differing(setting: Setting, default: Setting) -> Mapping[str, str]:
    """The kernels of a setting by option, those in which it differs."""
    names = ("kv_type", "flash_attn")
    return {name: getattr(setting, name) for name in names if getattr(setting, name) != getattr(default, name)}
