"""How many sequences to run at once, from what each number is predicted to give. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from cbatch.tune.race import LEAST_GAIN

HOPELESS = 0.02
"""Share of requests within the objectives below which none can be said to be met."""


@dataclass(frozen=True, slots=True)
class SlotOption:
    """A number of slots, and what is predicted of it."""

    slots: int
    tokens_per_s: float
    step_ns: float
    batched_tokens: int | None = None
    """Token budget of a step, where its length is bounded."""
    attainment: float | None = None
    """Share of requests that meet the objectives, where there are any."""


def best_for_throughput(options: Sequence[SlotOption], usual: int) -> SlotOption:
    """The usual number unless another one is faster by more than noise; of equal ones the fewest slots."""
    best = max(options, key=lambda option: option.tokens_per_s)
    kept = next((option for option in options if option.slots == usual), None)
    if kept is not None and best.tokens_per_s <= kept.tokens_per_s * (1 + LEAST_GAIN):
        return kept
    enough = best.tokens_per_s * (1 - LEAST_GAIN / 2)
    return min((o for o in options if o.tokens_per_s >= enough), key=lambda option: option.slots)


def best_for_goodput(options: Sequence[SlotOption]) -> SlotOption:
    """Most requests within the objectives; of nearly equal ones the fewest slots. Where none gets any, most tokens."""
    most = max(option.attainment or 0.0 for option in options)
    if most < HOPELESS:
        return max(options, key=lambda option: option.tokens_per_s)
    return min((o for o in options if (o.attainment or 0.0) >= most - 0.01), key=lambda option: option.slots)
