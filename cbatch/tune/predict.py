"""What a job would take, by the cost model: the real scheduler on virtual time. Measures nothing.

Rows are fed as `cbatch run` feeds them: those of the window are there at once, and the engine is told that no more will
come. What the scheduler of a run can't know, such as when the model ends a row, it doesn't know here.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType
from typing import Any

import numpy as np

from cbatch.clock import VirtualClock
from cbatch.config import ContextConfig, SchedulerConfig, padded
from cbatch.engine import Engine
from cbatch.engine.runner import StepPlan, StepResult
from cbatch.feed import Arrivals
from cbatch.metrics import Objectives, ReplayAccumulator
from cbatch.replay import Replay
from cbatch.sim.costs import StepCostModel
from cbatch.sim.runner import SimulatedRunner
from cbatch.sim.ubatches import Span, cut_pool, cut_streams
from cbatch.tune.mix import END, as_run
from cbatch.types import Request, RowRef

_NOWHERE: Mapping[str, int] = MappingProxyType({})
SLOTS = (1, 2, 4, 8, 12, 16, 24, 32, 48, 64)
"""That are worth a look."""


@dataclass(frozen=True, slots=True)
class Predicted:
    """A job in figures."""

    seconds: float
    output_tokens: int
    steps: int

    @property
    def tokens_per_s(self) -> float:
        return self.output_tokens / self.seconds if self.seconds > 0 else 0.0

    @property
    def step_ns(self) -> float:
        """In the mean: how long a sequence waits for its next token."""
        return self.seconds * 1e9 / max(1, self.steps)


class _EndingRunner(SimulatedRunner):
    """Ends some rows before their max_tokens."""

    def __init__(self, *args: Any, ends: Mapping[str, int], **more: Any) -> None:
        super().__init__(*args, **more)
        self._ends = ends

    def run(self, plan: StepPlan) -> StepResult:
        result = super().run(plan)
        if self._ends:
            result.sampled = [
                each._replace(token=END) if self._ends.get(each.seq.request.id) == each.seq.num_output + 1 else each
                for each in result.sampled
            ]
        return result


@dataclass(frozen=True, slots=True)
class Simulation:
    """Jobs on contexts of one setting. `context` and `scheduler` are those of the job, but for slots and cells.

    Of a replay, where it is asked what share of requests meets objectives.
    """

    costs: StepCostModel
    context: ContextConfig
    scheduler: SchedulerConfig
    bytes_per_token: float = 0.0
    parking: int = 0

    def runner(self, slots: int, cells: int, clock: VirtualClock, ends: Mapping[str, int] = _NOWHERE) -> _EndingRunner:
        """`ends`: by request id, after how many tokens a row gives `END`."""
        context = replace(self.context, max_num_seqs=slots, cells_per_seq=padded(cells))
        return _EndingRunner(
            self.costs, context, clock=clock, bytes_per_token=self.bytes_per_token, parking=self.parking, ends=ends
        )

    def with_slots(self, slots: int, batched_tokens: int | None = None) -> SchedulerConfig:
        tokens = self.scheduler.max_num_batched_tokens if batched_tokens is None else batched_tokens
        return replace(self.scheduler, max_num_seqs=slots, max_num_batched_tokens=max(slots, tokens))

    def run(
        self,
        requests: Sequence[Request],
        slots: int,
        batched_tokens: int | None = None,
        limits: Mapping[str, int] = _NOWHERE,
    ) -> Predicted:
        """Each request goes on to its max_tokens.

        `limits`: by request id, the max_tokens that the scheduler believes in instead.
        """
        clock = VirtualClock()
        seen = [as_run(request, limits) for request in requests]
        ends = {request.id: request.sampling.max_tokens for request in requests if request.id in limits}
        runner = self.runner(slots, _cells(seen), clock, ends)
        engine = Engine(runner, self.with_slots(slots, batched_tokens), log_calls=False)
        for request in seen:
            engine.add(request)
        engine.end_arrivals()
        steps = tokens = 0
        while engine.has_work:
            engine.step()
            record = engine.last_step
            if record is not None:
                steps, tokens = steps + 1, tokens + record.output_tokens
        return Predicted(clock.now_ns() / 1e9, tokens, steps)

    def attainment(
        self,
        requests: Sequence[Request],
        rate: float,
        objectives: Objectives,
        slots: int,
        batched_tokens: int | None = None,
    ) -> float:
        """Share of requests that meet the objectives where they come at random, `rate` a second (Poisson)."""
        clock = VirtualClock()
        cells = _cells(requests)
        engine = Engine(self.runner(slots, cells, clock), self.with_slots(slots, batched_tokens), log_calls=False)
        totals = ReplayAccumulator(objectives)
        Replay(engine, Arrivals(_arriving(requests, rate), clock), [totals], max_cells=padded(cells)).run()
        return totals.summary().attainment or 0.0


def _cells(requests: Sequence[Request]) -> int:
    return max(request.cells_needed for request in requests)


def _arriving(requests: Sequence[Request], rate: float) -> Iterable[tuple[RowRef, Request]]:
    """The same gaps at each rate, but for their scale."""
    times = np.cumsum(np.random.default_rng(3).exponential(1e9 / rate, len(requests))).astype(int).tolist()
    for number, (request, at) in enumerate(zip(requests, times, strict=True), 1):
        yield RowRef(number, request.id, request.id, at), replace(request, arrival_ns=at)


def chunk_within(
    costs: StepCostModel,
    context: ContextConfig,
    slots: int,
    held: int,
    longest: tuple[int, int],
    most_ns: float,
    most: int,
) -> int | None:
    """Prompt tokens that a step with `slots` - 1 decodes may compute in `most_ns`, at most `most`; None where the
    decodes alone take longer.

    The decodes have `held` tokens of context, but for one that has as many as any row, and the prompt's tokens are the
    last of the longest one. `longest`: tokens of that prompt, and of that row.
    """
    longest_prompt, longest_row = longest

    def step_ns(chunk: int) -> float:
        contexts = [longest_row, *[held] * slots][: slots - 1]
        decodes = [Span(slot, tokens, 1, 1) for slot, tokens in enumerate(contexts)]
        prompt = [Span(slots - 1, max(0, longest_prompt - chunk), chunk, 1)]
        if context.kv_mode == "split":
            calls = [cut_streams(spans, context.ubatch) for spans in (decodes, prompt) if spans]
        else:
            used = sum(contexts) + max(longest_prompt, chunk)
            calls = [cut_pool([*decodes, *prompt], context.ubatch, used)]
        sampled = len(decodes) + len(prompt)
        return sum(costs.call_ns(call) for call in calls) + costs.overhead_ns(sampled) + costs.sample_ns(sampled)

    if step_ns(1) > most_ns:
        return None
    return _highest(lambda chunk: step_ns(chunk) <= most_ns, most)


def _highest(holds: Callable[[int], bool], most: int) -> int:
    """The highest number, 1 to `most`, that holds, of which all lower ones do; 1 does."""
    low, high = 1, most + 1
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if holds(middle) else (low, middle)
    return low
