"""Looks at numbers of slots, and at token budgets, with the cost model."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from cbatch.tune.choice import SlotOption, best_for_goodput, best_for_throughput
from cbatch.tune.goal import Goal, spread
from cbatch.tune.predict import SLOTS, Simulation, chunk_within
from cbatch.types import Request

_ARRIVALS = 300
"""Requests that are replayed to see how many meet objectives."""


def slot_options(
    simulation: Simulation, goal: Goal, requests: list[Request], most: int, held: int
) -> Iterator[SlotOption]:
    """`most`: slots that there can be. `held`: tokens of a sequence while it decodes.

    Numbers whose decodes alone take longer than a step may are left out, unless none is left.
    """
    for slots in sorted({n for n in SLOTS if n < most} | {most}):
        budget = None
        if goal.most_stall_ns is not None:
            most_tokens = simulation.scheduler.max_num_batched_tokens
            chunk = chunk_within(simulation.costs, simulation.context, slots, held, goal.most_stall_ns, most_tokens)
            if chunk is None:
                continue
            budget = min(slots - 1 + chunk, most_tokens)
        played = simulation.run(requests, slots, budget)
        met = None
        if goal.rate is not None:
            met = simulation.attainment(spread(requests, _ARRIVALS), goal.rate, goal.objectives, slots, budget)
        yield SlotOption(slots, played.tokens_per_s, played.step_ns, budget, met)


def choose(options: Iterable[SlotOption], goal: Goal, usual: int) -> SlotOption:
    """By what the goal is."""
    found = list(options)
    return best_for_throughput(found, usual) if goal.rate is None else best_for_goodput(found)
