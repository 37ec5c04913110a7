"""What a job is made of, as far as it decides what is fast: how much to compute and how long contexts are."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

import numpy as np

from cbatch.sampling import SamplingParams
from cbatch.sim.measured import MeasuredStep
from cbatch.tune.loads import Decodes, Prompts
from cbatch.types import Request

END = -2
"""A token of no vocabulary, with which the model ends a row that is simulated."""


@dataclass(frozen=True, slots=True)
class Speeds:
    """What tokens take with one setting, ns of wall time."""

    prompt_ns: float
    """A prompt token."""
    step_ns: float
    """A step in which `running` sequences decode."""
    running: int

    @property
    def prefill_tokens_per_s(self) -> float:
        return 1e9 / self.prompt_ns

    @property
    def decode_tokens_per_s(self) -> float:
        return self.running * 1e9 / self.step_ns


@dataclass(frozen=True, slots=True)
class Mix:
    """Of rows, in tokens."""

    prompts: tuple[int, ...]
    """Of each row that was looked at, ascending: what is to be computed of its prompt."""
    outputs: float
    """Of a row, in the mean."""
    context: int
    """What a sequence holds while it decodes, in the mean."""

    @classmethod
    def of(cls, requests: Sequence[Request], shared_tokens: int = 0) -> Mix:
        """`shared_tokens`: how many of all prompt tokens are restored, as other prompts begin with them too."""
        sizes = [int(request.prompt.size) for request in requests]
        outputs = [request.sampling.max_tokens for request in requests]
        computed = 1 - shared_tokens / sum(sizes)
        weight = max(1, sum(outputs))
        context = sum(o * (p + o / 2) for p, o in zip(sizes, outputs, strict=True)) / weight
        lengths = sorted(max(1, round(size * computed)) for size in sizes)
        return cls(tuple(lengths), sum(outputs) / len(outputs), max(1, round(context)))

    @property
    def prompt(self) -> float:
        """In the mean."""
        return sum(self.prompts) / len(self.prompts)

    def row_ns(self, speeds: Speeds) -> float:
        """What a row takes of the machine, where enough of them run."""
        return self.prompt * speeds.prompt_ns + max(0.0, self.outputs - 1) * speeds.step_ns / speeds.running

    def prompts_of(self, tokens: int, most: int) -> Prompts:
        """Prompts of about so many tokens together, at most `most` of them, of lengths as the job's."""
        count = max(1, min(most, int(tokens / self.prompt)))
        places = ((np.arange(count) + 0.5) / count * len(self.prompts)).astype(int)
        return Prompts(tuple(min(tokens, self.prompts[place]) for place in places.tolist()))

    def decodes(self, running: int, steps: int) -> Decodes:
        return Decodes(running, self.context, steps)


def speeds_of(prompts: Sequence[MeasuredStep], decodes: Sequence[MeasuredStep], running: int) -> Speeds:
    """Of the steps of prompts, and of those with `running` decodes, of which some restore their context first."""
    tokens = sum(ubatch.tokens for step in prompts for call in step.calls for ubatch in call.ubatches)
    plain = [step.total_ns for step in decodes if step.sampled == running and step.restore_ns == 0]
    times = plain or [step.total_ns for step in decodes]
    return Speeds(sum(step.total_ns for step in prompts) / tokens, float(np.median(times)), running)


def made_up(prompts: Sequence[int], outputs: Sequence[int], vocabulary: int) -> list[Request]:
    """Requests of such lengths, with random prompts; the same ones each time."""
    rng = np.random.default_rng(2)
    return [
        Request(str(i), rng.integers(0, vocabulary, p).astype(np.int32), SamplingParams(max_tokens=o, ignore_eos=True))
        for i, (p, o) in enumerate(zip(prompts, outputs, strict=True), 1)
    ]


def until(request: Request, length: int) -> Request:
    """The request, going on to so many tokens whatever they are, and there from the beginning."""
    sampling = replace(request.sampling, max_tokens=length, ignore_eos=True, stop=(), stop_token_ids=(), echo=False)
    return replace(request, sampling=sampling, end_tokens=frozenset(), arrival_ns=0, priority=0)


def as_run(request: Request, limits: Mapping[str, int]) -> Request:
    """The request with its max_tokens in `limits`, by id, before which `END` may come; as it is without one."""
    if request.id not in limits:
        return request
    sampling = replace(request.sampling, max_tokens=limits[request.id], ignore_eos=False)
    return replace(request, sampling=sampling, end_tokens=frozenset([END]))


def shortened(request: Request, share: float) -> Request:
    """The request with that share of its prompt's last tokens, and of its output."""
    few = max(1, round(share * request.prompt.size))
    return until(replace(request, prompt=request.prompt[-few:]), max(2, round(share * request.sampling.max_tokens)))
