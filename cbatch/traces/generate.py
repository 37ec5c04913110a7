"""Makes a trace from distributions and a seed. Knows no file.

Arrivals, prompt lengths, output lengths, prefixes and priorities have a random stream each, so that changing one
leaves the others as they were.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from cbatch.errors import UsageError
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.lengths import Empirical, LengthDistribution
from cbatch.traces.priorities import PriorityMix
from cbatch.traces.streams import stream
from cbatch.traces.trace import SECOND, Manifest, TraceRequest

CHUNK = 1024
"""Values drawn at a time; no result depends on it."""


@dataclass(frozen=True, slots=True)
class GenerateConfig:
    """What to make. It ends after `num_requests` or before `duration_s`, whichever comes first."""

    arrival: ArrivalProcess
    prompt_tokens: LengthDistribution
    output_tokens: LengthDistribution
    num_requests: int | None = None
    duration_s: float | None = None
    prefix_share: float = 0.0
    """Of each prompt, in [0, 1), rounded down to whole blocks: the part that it shares with others."""
    num_prefixes: int = 8
    """Prefixes to share, each prompt's drawn uniformly."""
    prefix_block: int = 16
    """Tokens."""
    priorities: PriorityMix = field(default_factory=PriorityMix)
    seed: int = 0

    def __post_init__(self) -> None:
        self._check_end()
        if not 0 <= self.prefix_share < 1:
            raise UsageError(f"--prefix-share is {self.prefix_share:g}: give a share of each prompt, 0 to below 1")
        for option, value in (("--num-prefixes", self.num_prefixes), ("--prefix-block", self.prefix_block)):
            if value < 1:
                raise UsageError(f"{option} is {value}: give 1 or more")
        if self.seed < 0:
            raise UsageError(f"--seed is {self.seed}: give 0 or more")

    def _check_end(self) -> None:
        if self.num_requests is None and self.duration_s is None:
            raise UsageError("a trace needs an end: give --num-requests or --duration")
        if self.num_requests is not None and self.num_requests < 1:
            raise UsageError(f"--num-requests is {self.num_requests}: give 1 or more")
        if self.duration_s is not None and not 0 < self.duration_s < math.inf:
            raise UsageError(f"--duration is {self.duration_s:g}: give seconds above 0")
        if self.arrival.kind == "burst" and self.num_requests is None:
            raise UsageError("--arrival burst has no end in time: give --num-requests")

    def manifest(self, changes: Counter[str]) -> Manifest:
        """Of the trace, with the counter that `generate` counts in."""
        prefixes = {"share": self.prefix_share, "num_prefixes": self.num_prefixes, "block": self.prefix_block}
        source: dict[str, Any] = {
            "kind": "generated",
            "arrival": self.arrival.describe(),
            "prompt_tokens": self.prompt_tokens.describe(),
            "output_tokens": self.output_tokens.describe(),
            "num_requests": self.num_requests,
            "duration_s": self.duration_s,
            "prefixes": prefixes if self.prefix_share > 0 else None,
            "priorities": self.priorities.describe(),
            "seed": self.seed,
        }
        return Manifest(source=source, request_rate=self.arrival.rate, changes=changes)


def generate(config: GenerateConfig, changes: Counter[str]) -> Iterator[TraceRequest]:
    """The requests, in order of arrival. Lengths drawn as 0 are raised to 1 and counted in `changes`."""
    end_ns = math.inf if config.duration_s is None else config.duration_s * SECOND
    columns = zip(
        config.arrival.arrivals(stream(config.seed, "arrivals")),
        _endless(config, "prompt_tokens", config.prompt_tokens.draw),
        _endless(config, _output_stream(config), config.output_tokens.draw),
        _endless(config, "prefixes", lambda rng, count: rng.integers(0, config.num_prefixes, count)),
        _endless(config, "priorities", config.priorities.draw),
        strict=False,
    )
    for number, (arrival_ns, prompt, output, prefix, priority) in enumerate(columns):
        if number == config.num_requests or arrival_ns >= end_ns:
            return
        prompt = _at_least_one(prompt, "prompt_tokens", changes)
        ids = _prefix_ids(config, prefix, prompt)
        yield TraceRequest(
            arrival_ns=arrival_ns,
            prompt_tokens=prompt,
            output_tokens=_at_least_one(output, "output_tokens", changes),
            priority=priority,
            prefix_ids=ids,
            prefix_block=config.prefix_block if ids else None,
        )


def _output_stream(config: GenerateConfig) -> str:
    """Lengths of the same trace are drawn by the same random numbers, so in pairs: that keeps their correlation."""
    paired = isinstance(config.prompt_tokens, Empirical) and config.prompt_tokens.paired_with(config.output_tokens)
    return "prompt_tokens" if paired else "output_tokens"


def _endless(
    config: GenerateConfig, name: str, draw: Callable[[np.random.Generator, int], npt.NDArray[np.int64]]
) -> Iterator[int]:
    rng = stream(config.seed, name)
    while True:
        yield from draw(rng, CHUNK).tolist()


def _at_least_one(tokens: int, name: str, changes: Counter[str]) -> int:
    if tokens >= 1:
        return tokens
    changes[f"{name}_raised_to_1"] += 1
    return 1


def _prefix_ids(config: GenerateConfig, prefix: int, prompt_tokens: int) -> tuple[int, ...]:
    """Blocks of the prefix, as many as the share gives; block k of prefix p is p + k * num_prefixes, no one else's."""
    shared = math.floor(config.prefix_share * prompt_tokens + 1e-9)  # 0.57 * 100 is a little below 57
    return tuple(prefix + k * config.num_prefixes for k in range(shared // config.prefix_block))
