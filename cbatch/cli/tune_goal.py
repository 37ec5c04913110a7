"""What `cbatch tune` tunes for: rows that were given, or made up as long as the options say."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cbatch.cli import parts
from cbatch.cli.control import Control
from cbatch.cli.first_rows import read_inputs
from cbatch.cli.job_time import shared_tokens
from cbatch.cli.lengths import parse_output_len, parse_prompt_len
from cbatch.cli.output_lengths import may_end, output_lengths
from cbatch.cli.run_options import RunOptions
from cbatch.clock import Clock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine
from cbatch.errors import InputError, Interrupted, UsageError
from cbatch.feed import LookAhead
from cbatch.llama.encode import Encoder
from cbatch.llama.model import Model
from cbatch.metrics import parse_objectives
from cbatch.traces.lengths import LengthDistribution
from cbatch.tune.goal import Goal, spread
from cbatch.tune.mix import made_up, until
from cbatch.tune.setting import built_in
from cbatch.tune.workbench import Workbench
from cbatch.types import Request, RequestOutput, Row, RowFault

_MADE_UP_ROWS = 1_000
_PROMPT, _OUTPUT = "128", "64"
_LEAST_BUDGET_S = 1.0
_TRIED_ROWS = 32
_TRIED_SHARE = 0.08
"""Of the budget, for seeing how long outputs get."""


@dataclass(frozen=True, slots=True)
class GoalOptions:
    """As given."""

    for_rows: list[str] | None
    prompt_len: str | None
    output_len: str | None
    goodput: list[str] | None
    request_rate: float | None
    max_stall: float | None
    allow_kv_quant: bool
    budget: float

    @classmethod
    def of(cls, given: Mapping[str, Any]) -> GoalOptions:
        """Raises `UsageError` for what doesn't go together."""
        options = cls(**{name: given[name] for name in cls.__dataclass_fields__})
        options.check()
        return options

    def check(self) -> None:
        if not _LEAST_BUDGET_S <= self.budget < math.inf:
            raise UsageError(f"--budget is {self.budget:g}: give {_LEAST_BUDGET_S:g} second or more")
        if self.for_rows and self.prompt_len is not None:
            raise UsageError("--prompt-len is for a job without rows, and --for gives some: keep one")
        if bool(self.goodput) != (self.request_rate is not None):
            raise UsageError("--goodput and --request-rate belong together: limits, and at which rate to keep them")
        if self.request_rate is not None and not 0 < self.request_rate < math.inf:
            raise UsageError(f"--request-rate is {self.request_rate:g}: give requests per second, above 0")
        if self.max_stall is not None and not 0 < self.max_stall < math.inf:
            raise UsageError(f"--max-stall is {self.max_stall:g}: give milliseconds, above 0")
        parse_objectives(self.goodput or ())


def make_goal(
    asked: GoalOptions,
    options: RunOptions,
    workbench: Workbench,
    encoder: Encoder,
    say: Callable[[str], None],
    control: Control,
) -> Goal:
    """Raises `CbatchError` where rows can't be read, or none of them can be run; `Interrupted` once that is wanted."""
    most = parts.most_cells(options, workbench.model)
    if asked.for_rows:
        rows, all_rows = _rows(options, encoder, workbench.clock, control)
    else:
        rows, all_rows = _lengths(asked, workbench.model), False
    fitting = [request for request in rows if request.cells_needed <= most]
    if not fitting:
        raise InputError(f"none of the rows fits into a context of {most:,} KV cells: give shorter ones")
    if asked.for_rows:
        outputs = _output_lengths(fitting, asked, options, workbench, say)
    else:
        outputs = [request.sampling.max_tokens for request in fitting]
    return Goal(
        [until(request, length) for request, length in zip(fitting, outputs, strict=True)],
        limits={request.id: request.sampling.max_tokens for request in fitting if may_end(request)},
        shared_tokens=shared_tokens(request.prompt for request in fitting),
        made_up=not asked.for_rows,
        all_rows=all_rows,
        objectives=parse_objectives(asked.goodput or ()),
        rate=asked.request_rate,
        most_stall_ns=None if asked.max_stall is None else asked.max_stall * 1e6,
        allow_kv_quant=asked.allow_kv_quant,
    )


def _lengths(asked: GoalOptions, model: Model) -> list[Request]:
    prompts = _draw(parse_prompt_len(asked.prompt_len or _PROMPT), _MADE_UP_ROWS, 0)
    outputs = _draw(parse_output_len(asked.output_len or _OUTPUT), _MADE_UP_ROWS, 1)
    return made_up(prompts, outputs, model.n_vocab)


def _draw(lengths: LengthDistribution, count: int, stream: int) -> list[int]:
    drawn = lengths.draw(np.random.default_rng(stream), count)
    return [max(1, length) for length in drawn.tolist()]


def _rows(options: RunOptions, encoder: Encoder, clock: Clock, control: Control) -> tuple[list[Request], bool]:
    """The first rows that can be run, without further samples, and whether there are no more."""
    with closing(LookAhead(parts.encode_rows(_read(options, clock), encoder))) as feed:
        control.steer(feed.close, feed.close)
        window, all_read = feed.first_window(parts.PATIENCE_S)
        if control.stop_wanted:
            raise Interrupted("stopped while rows were awaited")
        feed.check()
    requests = [_alone(job[1]) for job in window if not isinstance(job, RowFault)]
    if not requests:
        raise InputError(f"{', '.join(options.inputs)}: there is no row that can be run")
    return requests, all_read


def _read(options: RunOptions, clock: Clock) -> Iterator[Row | RowFault]:
    """Opens the inputs once the first row is asked for, by whoever may wait: a pipe gives its header late."""
    yield from read_inputs(options, clock)


def _alone(request: Request) -> Request:
    """Without further samples, which hide how long a row is."""
    sampling = replace(request.sampling, n=1, best_of=None)
    return replace(request, fork_seeds=(), max_cells=None, sampling=sampling)


def _output_lengths(
    requests: Sequence[Request],
    asked: GoalOptions,
    options: RunOptions,
    workbench: Workbench,
    say: Callable[[str], None],
) -> list[int]:
    """As given, or as those of some rows get in a while, or may get: the middle between the two."""
    limits = [request.sampling.max_tokens for request in requests]
    if asked.output_len is not None:
        drawn = _draw(parse_output_len(asked.output_len), len(requests), 1)
        return [min(length, limit) for length, limit in zip(drawn, limits, strict=True)]
    if not any(map(may_end, requests)):
        return limits
    say("trying rows to see how long outputs get")
    outputs = _tried(spread(requests, _TRIED_ROWS), parts.scheduler_config(options), workbench, asked.budget)
    low, high = (output_lengths(requests, outputs, high=high) for high in (False, True))
    return [max(1, round((a + b) / 2)) for a, b in zip(low, high, strict=True)]


def _tried(
    requests: Sequence[Request], scheduler: SchedulerConfig, workbench: Workbench, budget_s: float
) -> list[RequestOutput]:
    """What the requests give in a while, ended or broken off."""
    setting, clock = built_in(workbench.model), workbench.clock
    cells = max(request.cells_needed for request in requests)
    slots = workbench.most_slots(setting, len(requests), cells)
    ends_ns = clock.now_ns() + _TRIED_SHARE * budget_s * 1e9
    outputs: list[RequestOutput] = []
    with workbench.runner(setting, slots, cells) as runner:
        engine = Engine(runner, replace(scheduler, max_num_seqs=slots))
        for request in requests:
            engine.add(replace(request, arrival_ns=0, priority=0))
        while engine.has_work and clock.now_ns() < ends_ns:
            outputs += engine.step()
        return outputs + engine.cancel_all()
