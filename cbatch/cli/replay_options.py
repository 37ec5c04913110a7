"""The options of `cbatch replay` as given, and what they spell. Reads no file but names them."""

from __future__ import annotations

import math
import os
import re
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path

from cbatch.cli.options import JobOptions
from cbatch.cli.trace_file import check_output
from cbatch.config import SchedulerConfig, padded
from cbatch.errors import UsageError
from cbatch.feed.arrivals import Pacing
from cbatch.metrics import Objectives, parse_objectives, parse_percentiles
from cbatch.outputs.directory import REQUESTS, RESULTS_FOLDER, RESULTS_JSONL, RUN_JSON, STEPS
from cbatch.replay import parse_rates
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.formats.containers import name_of
from cbatch.traces.parse import parse_window
from cbatch.traces.transform import Transforms

_OBJECTIVE = re.compile(r"[A-Za-z0-9]+:[A-Za-z0-9.+-]*")
"""Also of no number, so that its mistake is told as one of an objective."""


@dataclass(frozen=True, kw_only=True)
class ReplayOptions(JobOptions):
    """`cbatch replay`'s options, one field each; see its help."""

    inputs: list[str]
    request_rate: float | None
    burstiness: float | None
    max_concurrency: int | None
    natural_lengths: bool
    num_warmups: int
    duration: float | None
    grace_period: float
    goodput: list[str] | None
    attainment: float
    percentiles: str
    timeline: Path | None
    sweep_rate: str | None
    find_capacity: bool
    speedup: float | None
    limit: int | None
    window: str | None
    scale_lengths: float | None
    whole_prompts: bool = False
    """Cut no prompt that the first window knows of, unless `prefill_chunk` says so."""
    auto: bool = True
    given: tuple[str, ...] = ()
    """Names of the options that the user gave."""

    def check(self) -> None:
        super().check()
        for spelled in (self.pacing, self.transforms, self.percentile_list, lambda: self.objectives):
            spelled()
        if self.num_warmups < 0:
            raise UsageError(f"--num-warmups is {self.num_warmups}: give 0 or more")
        if self.grace_period < 0 or not math.isfinite(self.grace_period):
            raise UsageError(f"--grace-period is {self.grace_period:g}: give seconds, 0 or more")
        if not 0 < self.attainment <= 1:
            raise UsageError(f"--attainment is {self.attainment:g}: give a share above 0 and up to 1, such as 0.9")
        self._check_timeline()
        self._check_rates()
        self._check_effects()

    def _check_timeline(self) -> None:
        if self.timeline is None:
            return
        if any(os.path.abspath(source) == os.path.abspath(self.timeline) for source in self.sources):
            raise UsageError(f"--timeline {name_of(self.timeline)} is what is replayed: give another name")
        if self.output is None or self.timeline.absolute().parent != self.output.absolute():
            check_output(self.timeline, self.force)
        elif self.timeline.name in (REQUESTS, STEPS, RUN_JSON, RESULTS_JSONL, RESULTS_FOLDER):
            raise UsageError(f"--timeline {name_of(self.timeline)}: the replay writes a file of that name itself")

    def _check_rates(self) -> None:
        if self.request_rate is not None and not self.request_rate > 0:
            raise UsageError(f"--request-rate is {self.request_rate:g}: give requests per second, or inf")
        if self.find_capacity and not self.objectives.limits_ns:
            raise UsageError("--find-capacity needs an objective to hold: give --goodput, such as ttft:500")
        if self.several_rates and self.request_rate is not None:
            raise UsageError("--request-rate is one rate and a sweep has its own: leave one out")
        if self.several_rates and self.timeline is not None:
            raise UsageError("--timeline is of one replay: leave --sweep-rate and --find-capacity out")
        if self.burstiness is not None and (self.request_rate is None and not self.several_rates):
            raise UsageError("--burstiness needs --request-rate: a trace has its own arrival times")
        if self.burstiness is not None and self.request_rate == math.inf:
            raise UsageError("--burstiness is of gaps, and with --request-rate inf there are none: leave one out")

    def _check_effects(self) -> None:
        """What is given and could change nothing is a mistake."""
        if "static_wait" in self.given and self.batchings == {"continuous"}:
            raise UsageError("--static-wait is for static and padded batching: have one of these too, or leave it out")
        if "grace_period" in self.given and self.duration is None:
            raise UsageError("--grace-period begins when --duration ends: give that too, or leave it out")

    @cached_property
    def sources(self) -> list[str]:
        """The inputs, without values of `--goodput` that stand apart: `--goodput ttft:500 tpot:50`."""
        return [word for word in self.inputs if not _is_objective(word)]

    @cached_property
    def objectives(self) -> Objectives:
        apart = [word for word in self.inputs if _is_objective(word)]
        if apart and not self.goodput:
            raise UsageError(f"there is no file {apart[0]}: if it is an objective, give it after --goodput")
        return parse_objectives([*(self.goodput or ()), *apart])

    @cached_property
    def rates(self) -> tuple[float, ...] | None:
        return None if self.sweep_rate is None else parse_rates(self.sweep_rate)

    @property
    def batchings(self) -> set[str]:
        """All that are played."""
        return {self.batching}

    @property
    def prompt_rate(self) -> float | None:
        """Requests per second of what has no times of its own."""
        return self.request_rate

    @property
    def several_rates(self) -> bool:
        return self.find_capacity or self.rates is not None

    @property
    def reads_again(self) -> bool:
        """Whether the requests are played more than once."""
        return self.several_rates

    @property
    def arrivals_unknown(self) -> bool:
        return True

    @property
    def closed_loop(self) -> bool:
        return self.request_rate == math.inf and self.max_concurrency is not None

    def scheduler_config(self) -> SchedulerConfig:
        whole = self.whole_prompts and self.prefill_chunk is None
        return replace(super().scheduler_config(), whole_prompts=whole)

    def with_room_for(self, longest: int) -> ReplayOptions:
        """Where prompts are to stay whole: one of `longest` tokens fits into a step, beside what all others decode."""
        if not self.whole_prompts:
            return self
        tokens = padded(longest) + self.max_num_seqs
        return replace(self, max_num_batched_tokens=max(self.max_num_batched_tokens, tokens))

    def directory(self) -> Path:
        """Where to write: as given, or beside the input."""
        if self.output is not None:
            return self.output
        if len(self.sources) != 1 or not os.path.isfile(self.sources[0]):
            raise UsageError("several inputs, globs and pipes have no default output: give -o DIR")
        return Path(self.sources[0] + ".replay")

    def percentile_list(self) -> tuple[float, ...]:
        return parse_percentiles(self.percentiles)

    def transforms(self) -> Transforms:
        window = None if self.window is None else parse_window(self.window)
        return Transforms(window, self.limit, self.speedup, self.scale_lengths)

    def pacing(self) -> Pacing:
        return Pacing(self.max_concurrency, self.closed_loop, self.duration_ns())

    def process(self, rate: float) -> ArrivalProcess:
        """For requests without times."""
        if rate == math.inf:
            return ArrivalProcess("burst")
        kind = "poisson" if self.burstiness is None else "gamma"
        return ArrivalProcess(kind, rate, self.burstiness)

    def duration_ns(self) -> int | None:
        if self.duration is None:
            return None
        if not 0 < self.duration < math.inf:
            raise UsageError(f"--duration is {self.duration:g}: give seconds above 0")
        return round(self.duration * 1e9)

    def deadline_ns(self) -> int | None:
        """When the replay ends whatever is unfinished."""
        arriving = self.duration_ns()
        return None if arriving is None else arriving + round(self.grace_period * 1e9)


def _is_objective(word: str) -> bool:
    return _OBJECTIVE.fullmatch(word) is not None and not os.path.exists(word)
