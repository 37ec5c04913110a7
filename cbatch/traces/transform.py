"""Changes to a trace as it streams by: a window, a limit, a speed, a scale of lengths. Knows no file."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Iterator
from dataclasses import dataclass, replace
from itertools import islice

from cbatch.errors import UsageError
from cbatch.traces.check import MAX_TOKENS
from cbatch.traces.trace import SECOND, Manifest, TraceRequest


@dataclass(frozen=True, slots=True)
class Transforms:
    """Applied in the order of the fields; None leaves a trace as it is.

    What `window` and `limit` leave out isn't counted: their values say it, and they don't read on to the end.
    """

    window: tuple[float, float] | None = None
    """Seconds [start, end); start becomes 0."""
    limit: int | None = None
    """Requests."""
    speedup: float | None = None
    """2 plays twice as fast: times by 2, rate times 2."""
    scale_lengths: float | None = None
    """Factor of prompts, outputs and prefix blocks."""

    def __post_init__(self) -> None:
        if self.window is not None and not 0 <= self.window[0] < self.window[1]:
            raise UsageError(f"--window is {_window(self.window)}: give START:END in seconds, 0 <= START < END")
        if self.limit is not None and self.limit < 1:
            raise UsageError(f"--limit is {self.limit}: give 1 or more")
        for option, factor in (("--speedup", self.speedup), ("--scale-lengths", self.scale_lengths)):
            if factor is not None and not 0 < factor < math.inf:
                raise UsageError(f"{option} is {factor:g}: give a factor above 0; 1 changes nothing")

    def apply(self, requests: Iterable[TraceRequest], changes: Counter[str]) -> Iterator[TraceRequest]:
        """The transformed requests, lazily; what had to be changed beyond the asked is counted in `changes`."""
        if self.window is not None:
            requests = window(requests, *self.window)
        if self.limit is not None:
            requests = islice(requests, self.limit)
        if self.speedup is not None:
            requests = speedup(requests, self.speedup)
        if self.scale_lengths is not None:
            requests = scale_lengths(requests, self.scale_lengths, changes)
        return iter(requests)

    def apply_to_manifest(self, manifest: Manifest, changes: Counter[str]) -> Manifest:
        """The manifest of the transformed trace, with `changes`: the counter given to `apply`.

        For the trace's earlier changes to be kept, begin with `Counter(manifest.changes)`.
        """
        rate = manifest.request_rate
        if rate is not None and self.speedup is not None:
            rate *= self.speedup
        return replace(
            manifest, request_rate=rate, transforms=(*manifest.transforms, *self.describe()), changes=changes
        )

    def describe(self) -> tuple[str, ...]:
        """Each transform in words, in the order applied."""
        values = {
            "window": None if self.window is None else _window(self.window),
            "limit": self.limit,
            "speedup": None if self.speedup is None else _number(self.speedup),
            "scale_lengths": None if self.scale_lengths is None else _number(self.scale_lengths),
        }
        return tuple(f"{name} {value}" for name, value in values.items() if value is not None)


def window(requests: Iterable[TraceRequest], start_s: float, end_s: float) -> Iterator[TraceRequest]:
    """Requests that arrive in [start_s, end_s), as of start_s."""
    start_ns = round(start_s * SECOND)
    for request in requests:
        if request.arrival_ns >= end_s * SECOND:
            return
        if request.arrival_ns >= start_s * SECOND:
            yield replace(request, arrival_ns=request.arrival_ns - start_ns)


def speedup(requests: Iterable[TraceRequest], factor: float) -> Iterator[TraceRequest]:
    """Arrival times divided by `factor`."""
    return (replace(request, arrival_ns=round(request.arrival_ns / factor)) for request in requests)


def scale_lengths(requests: Iterable[TraceRequest], factor: float, changes: Counter[str]) -> Iterator[TraceRequest]:
    """Prompts, outputs and prefix blocks `factor` times as long, rounded, at least 1.

    Counted: lengths raised to 1; prompts given as text, which stay; blocks that don't come out whole, so that another
    share of the prompt is shared than before.
    """
    for request in requests:
        output = _scaled(request.output_tokens, factor, "output_tokens", changes)
        if request.prompt is not None:
            changes["text_prompts_not_scaled"] += 1
            yield replace(request, output_tokens=output)
        else:
            yield _scaled_prompt(replace(request, output_tokens=output), factor, changes)


def _scaled_prompt(request: TraceRequest, factor: float, changes: Counter[str]) -> TraceRequest:
    prompt = _scaled(request.prompt_tokens, factor, "prompt_tokens", changes)
    block = request.prefix_block
    if prompt is None or block is None:
        return replace(request, prompt_tokens=prompt)
    scaled = max(1, round(block * factor))
    if scaled != block * factor:
        changes["prefix_blocks_rounded"] += 1
    # rounding may leave the prompt short of its last blocks, which then say nothing
    ids = request.prefix_ids[: -(-prompt // scaled)]
    return replace(request, prompt_tokens=prompt, prefix_ids=ids, prefix_block=scaled)


def _scaled(tokens: int | None, factor: float, name: str, changes: Counter[str]) -> int | None:
    if tokens is None:
        return None
    scaled = round(tokens * factor)
    if scaled > MAX_TOKENS:
        raise UsageError(
            f"--scale-lengths is {factor:g}, which makes {scaled:.3g} {name} of {tokens:,}: "
            f"give a factor that leaves {MAX_TOKENS:,} or fewer"
        )
    if scaled < 1:
        changes[f"{name}_raised_to_1"] += 1
    return max(1, scaled)


def _window(window: tuple[float, float]) -> str:
    return ":".join(_number(bound) for bound in window)


def _number(value: float) -> str:
    return str(int(value)) if float(value).is_integer() else repr(float(value))
