"""What `cbatch tune` tunes for: rows that were given, or made up as long as the options say."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from cbatch.cli import parts
from cbatch.cli.job_time import shared_tokens
from cbatch.cli.lengths import parse_output_len, parse_prompt_len
from cbatch.cli.output_lengths import output_lengths
from cbatch.cli.run_options import RunOptions
from cbatch.clock import WallClock
from cbatch.engine import Engine
from cbatch.errors import InputError, UsageError
from cbatch.feed import LookAhead
from cbatch.inputs import read_rows
from cbatch.llama.encode import Encoder
from cbatch.llama.model import Model
from cbatch.llama.runner import LlamaRunner
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics import parse_objectives
from cbatch.traces.lengths import LengthDistribution
from cbatch.tune.goal import Goal
from cbatch.tune.mix import made_up, until
from cbatch.types import Request, RequestOutput, RowFault

_MADE_UP_ROWS = 1_000
_PROMPT, _OUTPUT = "128", "64"
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
    model: Model,
    tokenizer: Tokenizer,
    encoder: Encoder,
    clock: WallClock,
    say: Callable[[str], None],
) -> Goal:
    """Raises `CbatchError` where rows can't be read, or none of them can be run."""
    most = parts.most_cells(options, model)
    outputs = None if asked.output_len is None else parse_output_len(asked.output_len)
    if asked.for_rows:
        requests, all_rows = _rows(options, encoder, clock)
        if outputs is None:
            requests = _as_long_as_tried(requests, asked, options, model, tokenizer, clock, say)
    else:
        requests, all_rows = _lengths(asked, model), False
    if outputs is not None and asked.for_rows:
        requests = [_alone(r, n) for r, n in zip(requests, _draw(outputs, len(requests), 1), strict=True)]
    fitting = [request for request in requests if request.cells_needed <= most]
    if not fitting:
        raise InputError(f"none of the rows fits into a context of {most:,} KV cells: give shorter ones")
    return Goal(
        fitting,
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


def _rows(options: RunOptions, encoder: Encoder, clock: WallClock) -> tuple[list[Request], bool]:
    """The first rows that can be run, and whether there are no more."""
    rows = read_rows(options.inputs, defaults=options.sampling(), clock=clock, options=options.input_options())
    with closing(LookAhead(parts.encode_rows(rows, encoder))) as feed:
        window, all_read = feed.first_window(parts.PATIENCE_S)
        feed.check()
    requests = [job[1] for job in window if not isinstance(job, RowFault)]
    if not requests:
        raise InputError(f"{', '.join(options.inputs)}: there is no row that can be run")
    return requests, all_read


def _as_long_as_tried(
    requests: Sequence[Request],
    asked: GoalOptions,
    options: RunOptions,
    model: Model,
    tokenizer: Tokenizer,
    clock: WallClock,
    say: Callable[[str], None],
) -> list[Request]:
    """With outputs as long as those of some rows get in a while, or may get: the middle between the two."""
    if not any(request.end_tokens or request.sampling.stop for request in requests):
        return [_alone(request, request.sampling.max_tokens) for request in requests]
    say("trying rows to see how long outputs get")
    count = min(_TRIED_ROWS, len(requests))
    tried = [requests[i * len(requests) // count] for i in range(count)]
    config, _ = parts.size_for_rows(
        options, model, [r.cells_needed for r in tried], all_read=True, limit=parts.most_cells(options, model)
    )
    outputs: list[RequestOutput] = []
    with closing(LlamaRunner(model, tokenizer, config, clock)) as runner:
        engine = Engine(runner, replace(parts.scheduler_config(options), max_num_seqs=config.max_num_seqs))
        ends_ns = clock.now_ns() + _TRIED_SHARE * asked.budget * 1e9
        for request in tried:
            if request.cells_needed <= runner.capacity.cells_per_seq:
                engine.add(replace(request, arrival_ns=0, priority=0))
        while engine.has_work and clock.now_ns() < ends_ns:
            outputs += engine.step()
        outputs += engine.cancel_all()
    low, high = (list(output_lengths(requests, outputs, high=high)) for high in (False, True))
    return [_alone(request, max(1, round((a + b) / 2))) for request, a, b in zip(requests, low, high, strict=True)]


def _alone(request: Request, length: int) -> Request:
    """One that ends after so many tokens and not before, without further samples, which hide how long a row is."""
    one = replace(request, fork_seeds=(), max_cells=None, sampling=replace(request.sampling, n=1, best_of=None))
    return until(one, length)
