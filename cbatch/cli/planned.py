"""A job's time by the cost model of a profile, and what would make it shorter. Runs nothing."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass, replace

import numpy as np

from cbatch.cli import parts
from cbatch.cli.first_rows import FittedRows, rows_in_all
from cbatch.cli.output_lengths import may_end
from cbatch.cli.overflow import planned_overflow
from cbatch.cli.run_options import RunOptions
from cbatch.cli.sizing import cells_needed
from cbatch.config import ContextConfig
from cbatch.feed import LookAhead
from cbatch.inputs import RowStream
from cbatch.llama.memory import kv_bytes, kv_bytes_per_cell, within_memory
from cbatch.llama.model import Model
from cbatch.llama.resolve import resolve_context
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics.preview import MemoryFit, Preview, Range
from cbatch.traces.lengths import LengthDistribution
from cbatch.tune.mix import until
from cbatch.tune.plan import JobTime, Plan, Suggestion
from cbatch.tune.predict import SLOTS, Simulation
from cbatch.tune.profile import Profile
from cbatch.tune.race import LEAST_GAIN
from cbatch.types import Request

_LEAST_DOUBT = 0.05
"""Of a time: machines are no more constant than that."""
_MOST_ROWS = 512
_MOST_TOKENS = 60_000
"""Output tokens that are simulated at once, about."""


@dataclass(frozen=True)
class Planned:
    """A plan by a profile. Runs nothing."""

    options: RunOptions
    profile: Profile
    model: Model
    lengths: LengthDistribution | None
    """Of outputs, where they are given."""

    def plan(self, rows: RowStream, line: str) -> Plan:
        options, model = self.options, self.model
        with (
            closing(parts.make_encoder(options, model, Tokenizer(model))) as encoder,
            closing(LookAhead(parts.encode_rows(rows, encoder))) as feed,
        ):
            window, all_read = feed.first_window(parts.PATIENCE_S)
            feed.check()
        limit = parts.most_cells(options, model)
        needs = cells_needed(window)
        context, note = parts.size_for_rows(options, model, needs, all_read=all_read, limit=limit)
        fitted = FittedRows.of(window, limit, planned_overflow(options, model, context, limit))
        total = len(window) if all_read else rows_in_all(options, rows.num_rows, window)
        preview = Preview(
            rows_read=len(window),
            all_read=all_read,
            prompts=(),
            faults=fitted.fault_views(),
            lengths=fitted.lengths(),
            memory=self._memory(context, fitted, limit),
            estimate=None,
            notes=(*([] if note is None else [note]), f"plain prompts: {encoder.applied}"),
        )
        if not fitted.requests:
            return Plan(preview, line, None, ())
        return self._with_time(preview, line, context, fitted.requests, total)

    def _memory(self, context: ContextConfig, rows: FittedRows, limit: int) -> MemoryFit:
        resolved = resolve_context(self.model, context)
        unified = resolved.kv_mode == "unified"
        return rows.memory(
            resolved,
            cells_per_seq=resolved.total_cells if unified else resolved.cells_per_seq,
            total_cells=resolved.total_cells,
            kv_bytes=kv_bytes(self.model, context),
            most_cells=limit,
            policy=self.options.on_overflow,
        )

    def _with_time(
        self, preview: Preview, line: str, context: ContextConfig, requests: Sequence[Request], total: int | None
    ) -> Plan:
        rows = preview.rows_read if total is None else total
        runnable = round(rows * len(requests) / preview.rows_read)
        bounds = self._bounds(requests)
        simulation, slots = self._simulation(context), context.max_num_seqs
        times = [_seconds(simulation, each, slots, runnable) for each in bounds]
        doubt = max(_LEAST_DOUBT, abs(self.profile.error.total))
        span: Range = (min(times) / (1 + doubt), max(times) * (1 + doubt))
        outputs = [sum(r.sampling.max_tokens * r.num_samples for r in each) / len(each) for each in bounds]
        mean = sum(int(request.prompt.size) for request in requests) / len(requests)
        time = JobTime(
            rows=rows,
            known_rows=total is not None,
            prompt_tokens=round(mean * runnable),
            output_tokens=(min(outputs), max(outputs)),
            seconds=span,
            doubt=doubt,
            measured=self.profile.date,
        )
        return Plan(preview, line, time, tuple(self._suggestions(simulation, context, bounds[-1], runnable, times[-1])))

    def _bounds(self, requests: Sequence[Request]) -> list[list[Request]]:
        """The rows with outputs as short and as long as they may get; one list where that is known."""
        if self.lengths is not None:
            drawn = self.lengths.draw(np.random.default_rng(0), len(requests)).tolist()
            return [[until(r, _ending(r, length)) for r, length in zip(requests, drawn, strict=True)]]
        whole = [until(request, request.sampling.max_tokens) for request in requests]
        if not any(map(may_end, requests)):
            return [whole]
        short = [until(r, 1) if may_end(r) else w for r, w in zip(requests, whole, strict=True)]
        return [short, whole]

    def _simulation(self, context: ContextConfig) -> Simulation:
        return Simulation(
            self.profile.costs,
            context,
            parts.scheduler_config(self.options),
            bytes_per_token=kv_bytes_per_cell(self.model, context),
            parking=resolve_context(self.model, context).parking,
        )

    def _suggestions(
        self, simulation: Simulation, context: ContextConfig, requests: list[Request], rows: int, seconds: float
    ) -> Iterator[Suggestion]:
        """What saves time by the model, most first."""

        def saved(other: Simulation, slots: int) -> float:
            return 1 - _seconds(other, requests, slots, rows) / seconds

        found = [
            Suggestion(f"--max-num-seqs {slots}", saved(simulation, slots))
            for slots in SLOTS
            if slots != context.max_num_seqs
            and slots <= min(rows, self.profile.most_slots)
            and self._fits(context, slots)
        ]
        best = max(found, key=lambda each: each.saved, default=None)
        others = [best] if best is not None else []
        if self.options.no_prefix_cache or self.options.prefix_cache == "0":
            shared = replace(self.options, no_prefix_cache=False, prefix_cache="auto")
            with_cache = replace(simulation, scheduler=parts.scheduler_config(shared))
            others.append(Suggestion("--prefix-cache auto", saved(with_cache, context.max_num_seqs)))
        yield from sorted((each for each in others if each.saved > LEAST_GAIN), key=lambda each: -each.saved)

    def _fits(self, context: ContextConfig, slots: int) -> bool:
        fitting = within_memory(self.model, replace(context, max_num_seqs=slots))
        return fitting is not None and fitting.max_num_seqs == slots


def _ending(request: Request, length: int) -> int:
    """Output tokens of a request that would end after `length`, if it can."""
    most = request.sampling.max_tokens
    return max(1, min(length, most)) if may_end(request) else most


def _seconds(simulation: Simulation, requests: Sequence[Request], slots: int, rows: int) -> float:
    """For `rows` like the requests: all of them, or a part, and in proportion to what each row after its half took."""
    outputs = sum(r.sampling.max_tokens * r.num_samples for r in requests) / len(requests)
    count = min(len(requests), max(4 * slots, min(_MOST_ROWS, int(_MOST_TOKENS / outputs))))
    if rows <= count:
        return simulation.run(_spread(requests, max(1, rows)), slots).seconds
    half = simulation.run(_spread(requests, max(1, count // 2)), slots).seconds
    whole = simulation.run(_spread(requests, count), slots).seconds
    return whole + (rows - count) * (whole - half) / max(1, count - count // 2)


def _spread(requests: Sequence[Request], count: int) -> list[Request]:
    """So many of them from all over."""
    few = min(count, len(requests))
    return [requests[i * len(requests) // few] for i in range(few)]
