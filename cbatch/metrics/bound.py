"""What the measured costs of steps allow at best: a bound that no policy on this machine can beat. Knows no policy."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from cbatch.metrics.replay import ReplaySummary
from cbatch.types import StepRecord

MINIMUM_STEPS = 3
"""A cost is believed if it was seen in so many steps."""


class _Costs:
    """(ns, tokens, steps) by a key."""

    def __init__(self) -> None:
        self._sums: dict[int, tuple[int, int, int]] = {}

    def add(self, key: int, ns: int, tokens: int, steps: int = 1) -> None:
        have = self._sums.get(key, (0, 0, 0))
        self._sums[key] = (have[0] + ns, have[1] + tokens, have[2] + steps)

    def merge(self, other: _Costs) -> None:
        for key, sums in other._sums.items():
            self.add(key, *sums)

    def steps(self) -> dict[int, float]:
        """Mean ns a step, by key."""
        return {key: ns / steps for key, (ns, _, steps) in self._sums.items()}

    def least(self) -> float | None:
        """Lowest mean ns a token over the keys seen often enough; else over all."""
        means = [(steps >= MINIMUM_STEPS, ns / tokens) for ns, tokens, steps in self._sums.values() if tokens]
        often = [mean for enough, mean in means if enough]
        return min(often or [mean for _, mean in means], default=None)


class StepCosts:
    """Costs of prompt and output tokens, gathered from steps: by sequences decoding, by prompt tokens (powers of two).

    A call that holds both (unified KV) counts as either in proportion to its tokens.
    """

    def __init__(self) -> None:
        self._decode = _Costs()
        self._prefill = _Costs()

    def add(self, record: StepRecord) -> None:
        decodes, prompts = record.decode_seqs + record.padding_seqs, record.prefill_tokens
        shared = record.mixed_call_ns * decodes // max(1, decodes + prompts)
        decode_ns, prefill_ns = record.decode_call_ns + shared, record.prefill_call_ns + record.mixed_call_ns - shared
        if decode_ns and decodes:
            self._decode.add(decodes, decode_ns, decodes)
        if prefill_ns and prompts:
            self._prefill.add(prompts.bit_length(), prefill_ns, prompts)

    def merge(self, other: StepCosts) -> None:
        self._decode.merge(other._decode)
        self._prefill.merge(other._prefill)

    @property
    def decode_steps_ns(self) -> dict[int, float]:
        """Mean time inside the decode calls of a step, ns, by sequences that decoded."""
        return self._decode.steps()

    @property
    def decode_ns(self) -> float | None:
        """Of an output token, ns, at the batch size at which it was cheapest."""
        return self._decode.least()

    @property
    def prefill_ns(self) -> float | None:
        """Of a prompt token, ns, at the chunk size at which it was cheapest."""
        return self._prefill.least()


@dataclass(frozen=True, slots=True)
class Bound:
    """The shortest time in which a run's completed requests could have been served."""

    work_ns: float
    """All tokens at their cheapest: prompt tokens x prefill cost + (output tokens - requests) x decode cost, since the
    first output token comes with the prompt."""
    arrivals_ns: float
    """From the first arrival to the last: no request can be over before it comes."""

    @property
    def shortest_ns(self) -> float:
        return max(self.work_ns, self.arrivals_ns)


def merged(costs: Iterable[StepCosts]) -> StepCosts:
    """All together."""
    total = StepCosts()
    for each in costs:
        total.merge(each)
    return total


def bound(summary: ReplaySummary, costs: StepCosts) -> Bound | None:
    """None where no request completed, or too little was computed to know the costs."""
    prefill_ns, decode_ns, run = costs.prefill_ns, costs.decode_ns, summary.run
    decodes = run.output_tokens - summary.completed
    if summary.completed == 0 or prefill_ns is None or (decode_ns is None and decodes > 0):
        return None
    rate = summary.realised_rate
    arrivals_ns = 0.0 if rate is None else (summary.arrived - 1) / rate * 1e9
    return Bound(run.prompt_tokens * prefill_ns + decodes * (decode_ns or 0.0), arrivals_ns)
