"""Published workloads: what was asked, how it was batched, what was found, and why it may differ here. Runs nothing.

Lengths are the published ones times a factor, so that ratios such as that of cap to mean stay.

anyscale  "How continuous batching enables 23x throughput in LLM inference while reducing p50 latency" (Anyscale, June
          2023) with its code, github.com/anyscale/llm-continuous-batching-benchmarks: OPT-13B on one A100 of 40 GB,
          1,000 prompts of 512 tokens at once, outputs exponential with mean 128, redrawn above a cap of 32, 128, 512 or
          1536. Static batches had memory for 16, 12, 8 and 4 sequences of the longest output; continuous batching got
          a budget of about 8,100 tokens, which is 12 to 16 sequences of the mean: 16 slots here, at every cap. Naive
          static batching fell to 81 tokens/s at the last cap; continuous was about equal at the first ones and 8 times
          that at the last, vLLM 23 times. Its tokens/s count prompts too; here only outputs count.
orca      Yu et al., "Orca: A Distributed Serving System for Transformer-Based Generative Models" (OSDI 2022), section
          6.2: inputs U(32, 512), outputs U(1, 128), Poisson. GPT-3 175B on 16 A100: at a median normalised latency of
          190 ms, twice that of an idle system, 6.81 requests/s against FasterTransformer's 0.185: 36.9 times.
seed      The figures this project set out to check: Poisson, up to 64 in flight, prompts of 128 to 2048 tokens;
          continuous over static 3.8 times the throughput and 80 % less mean TTFT. Where they were measured isn't told,
          nor the outputs. Here they are as long as the prompts: where batching was found worth so much, a request
          decodes for longer than it prefills.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace

from cbatch.errors import UsageError
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.generate import GenerateConfig
from cbatch.traces.lengths import Exponential, Fixed, LengthDistribution, Uniform

SCALE = 0.25
"""Of lengths, where none is asked for: fit for a small model on a CPU."""
POLICIES = ("static", "continuous")
"""What each point is served with, the baseline first."""


@dataclass(frozen=True, slots=True)
class Point:
    """One workload of a study."""

    label: str
    """In the study's own, unscaled terms; fit for a file name."""
    prompt_tokens: LengthDistribution
    output_tokens: LengthDistribution
    load: float | None = None
    """Poisson at this share of the continuous capacity; None: all at once."""
    slots: Mapping[str, int] = field(default_factory=dict)
    """Of a policy, where the study sets them."""
    published: Mapping[str, float] = field(default_factory=dict)
    """Ratio of continuous to static, by metric (`cbatch.metrics.reproduction.MEASURES`)."""

    def at_once(self, label: str) -> Point:
        """The same requests without a load."""
        return replace(self, label=label, load=None)

    def rate(self, capacity: float | None) -> float | None:
        """Requests per second at a capacity; None for all at once."""
        if self.load is None:
            return None
        assert capacity is not None, f"{self.label} is a share of a capacity"
        return self.load * capacity

    def config(self, num_requests: int, seed: int, capacity: float | None = None) -> GenerateConfig:
        """Its requests, with equal lengths at every load."""
        rate = self.rate(capacity)
        arrival = ArrivalProcess("burst") if rate is None else ArrivalProcess("poisson", rate)
        return GenerateConfig(arrival, self.prompt_tokens, self.output_tokens, num_requests, seed=seed)


@dataclass(frozen=True, slots=True)
class Preset:
    """A study."""

    name: str
    source: str
    points: tuple[Point, ...]
    metrics: tuple[str, ...]
    """What it reports, by the names of `cbatch.metrics.reproduction.MEASURES`."""
    reason: str
    """Why this machine may give other ratios."""
    num_requests: int
    """A point, where none are asked for: fit for a CPU."""
    scale: float
    max_concurrency: int | None = None
    rate_at_latency: float | None = None
    """Published ratio of the rates at which the median normalised latency is twice that of an idle system."""

    @property
    def needs_capacity(self) -> bool:
        return any(point.load is not None for point in self.points)


def make_preset(name: str, scale: float | None = None) -> Preset:
    """One of `PRESETS`, its lengths times `scale` (default `SCALE`). Raises `UsageError`."""
    if name not in PRESETS:
        raise UsageError(f"--preset is {name!r}: give one of {', '.join(PRESETS)}")
    return PRESETS[name](SCALE if scale is None else scale)


def _anyscale(scale: float) -> Preset:
    def point(cap: int, static: int, published: Mapping[str, float]) -> Point:
        outputs = Exponential(128 * scale, _tokens(cap, scale))
        slots = {"static": static, "continuous": 16}
        return Point(f"cap-{cap}", Fixed(_tokens(512, scale)), outputs, slots=slots, published=published)

    caps: tuple[tuple[int, int, dict[str, float]], ...] = (
        (32, 16, {}),
        (128, 12, {}),
        (512, 8, {}),
        (1536, 4, {"output_throughput": 8.0}),
    )
    return Preset(
        "anyscale",
        "Anyscale 2023, continuous batching study: Hugging Face TGI over naive static batches, OPT-13B on an A100",
        tuple(point(*cap) for cap in caps),
        ("output_throughput",),
        "There a step is bound by memory bandwidth, so it costs about the same for 4 sequences as for 16 and a slot "
        "that is idle or has no room is lost; where a step's time grows with its batch, as on a CPU, and prompts take "
        "a large part of the time, fuller batches gain less. The baseline there is another, slower engine; "
        "vLLM's 23 times also has larger batches, by paged memory.",
        num_requests=48,
        scale=scale,
    )


def _orca(scale: float) -> Preset:
    prompts = Uniform(_tokens(32, scale), _tokens(512, scale))
    outputs = Uniform(1, _tokens(128, scale))
    return Preset(
        "orca",
        "Orca (Yu et al., OSDI 2022), section 6.2: over FasterTransformer, GPT-3 175B on 16 A100",
        tuple(Point(f"load-{load:g}", prompts, outputs, load) for load in (0.25, 0.5, 0.9)),
        ("normalized_latency_p50",),
        "The baseline there is another engine, which runs a pipeline over 16 GPUs and returns the requests of a batch "
        "together; here both policies have one engine, a request is returned when it ends and idle slots cost nothing, "
        "so all that static batches lose is the wait for their turn.",
        num_requests=48,
        scale=scale,
        rate_at_latency=36.9,
    )


def _seed(scale: float) -> Preset:
    prompts = Uniform(_tokens(128, scale), _tokens(2048, scale))
    published = {"ttft_mean": 0.2, "output_throughput": 3.8}
    return Preset(
        "seed",
        "The figures this project set out to check",
        tuple(Point(f"load-{load:g}", prompts, prompts, load, published=published) for load in (0.5, 0.75, 0.95)),
        ("ttft_mean", "output_throughput"),
        "Below capacity both policies serve what arrives, so throughputs can't differ by more than the backlog that "
        "static leaves at the end, and where a step's time grows with its batch, as on a CPU, half empty static "
        "batches are fast; 3.8 times takes more load than static can serve, and steps that cost the same for any "
        "batch.",
        num_requests=64,
        scale=scale,
        max_concurrency=64,
    )


PRESETS: Mapping[str, Callable[[float], Preset]] = {"anyscale": _anyscale, "orca": _orca, "seed": _seed}


def _tokens(published: int, scale: float) -> int:
    return max(1, math.floor(published * scale + 0.5))
