"""Looks at numbers of slots, and at token budgets, with the cost model."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cbatch.tune.choice import SlotOption, best_for_goodput, best_for_throughput
from cbatch.tune.goal import Goal, spread
from cbatch.tune.predict import SLOTS, Simulation, chunk_within

_ARRIVALS = 300
"""Requests that are replayed to see how many meet objectives."""


def slot_options(
    simulation: Simulation, goal: Goal, most: int, held: int, *, usual: int, goes_on: Callable[[], bool]
) -> list[SlotOption]:
    """`most`: slots that there can be. `held`: tokens of a sequence while it decodes, in the mean.

    Numbers whose decodes alone take longer than a step may are left out; others too once nothing more is to be looked
    at, but for the first one, which is the `usual`.
    """
    numbers = sorted({n for n in SLOTS if n < most} | {most}, key=lambda n: (abs(n - usual), n))
    found: list[SlotOption] = []
    for slots in numbers:
        if found and not goes_on():
            break
        option = _option(simulation, goal, slots, held)
        found += [] if option is None else [option]
    return sorted(found, key=lambda option: option.slots)


def _option(simulation: Simulation, goal: Goal, slots: int, held: int) -> SlotOption | None:
    budget = None
    if goal.most_stall_ns is not None:
        most_tokens = simulation.scheduler.max_num_batched_tokens
        longest = max(int(request.prompt.size) for request in goal.requests), goal.cells
        chunk = chunk_within(
            simulation.costs, simulation.context, slots, held, longest, goal.most_stall_ns, most_tokens
        )
        if chunk is None:
            return None
        budget = min(slots - 1 + chunk, most_tokens)
    played = simulation.run(goal.sample(slots), slots, budget)
    met = None
    if goal.rate is not None:
        met = simulation.attainment(spread(goal.requests, _ARRIVALS), goal.rate, goal.objectives, slots, budget)
    return SlotOption(slots, played.tokens_per_s, played.step_ns, budget, met)


def choose(options: Iterable[SlotOption], goal: Goal, usual: int) -> SlotOption:
    """By what the goal is."""
    found = list(options)
    return best_for_throughput(found, usual) if goal.rate is None else best_for_goodput(found)
