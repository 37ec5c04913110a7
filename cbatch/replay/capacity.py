"""The highest rate that holds an SLO: when one does, and a search that knows rates only."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass

from cbatch.metrics import ReplaySummary

_WIDEST = 2.0**10
"""How far from the first rate to look, as a factor."""


@dataclass(frozen=True, slots=True)
class Capacity:
    """What a search found, requests per second."""

    rate: float | None
    """The highest rate tried that held; None where none did."""
    failing: float | None
    """The lowest rate tried above it that didn't hold; None where all did."""


def find_capacity(
    holds: Callable[[float], bool], *, start: float, tried: dict[float, bool] | None = None, tolerance: float = 0.05
) -> Capacity:
    """Search for the highest rate at which `holds`, which is taken to hold below a rate and to fail above it.

    From `start`, or from what `tried` knows already, rates are doubled or halved until one holds and one fails, at most
    1024 times away; then the gap is halved (on a log scale) until the failing rate is at most `tolerance` above.
    """
    known = dict(tried) if tried is not None else {}

    def trial(rate: float) -> bool:
        if rate not in known:
            known[rate] = holds(rate)
        return known[rate]

    if not known:
        trial(start)
    low, high = bracket(known)
    while high is None and low is not None and low < start * _WIDEST:
        trial(low * 2)
        low, high = bracket(known)
    while low is None and high is not None and high > start / _WIDEST:
        trial(high / 2)
        low, high = bracket(known)
    while low is not None and high is not None and high > low * (1 + tolerance):
        trial(math.sqrt(low * high))
        low, high = bracket(known)
    return Capacity(low, high)


def holds(summary: ReplaySummary, attainment: float) -> bool | None:
    """Whether that share of the requests met every objective while the queue didn't grow.

    None without objectives, or without requests.
    """
    if summary.attainment is None:
        return None
    saturated = summary.saturation is not None and summary.saturation.saturated
    return summary.attainment >= attainment and not saturated


def may_hold(summary: ReplaySummary, attainment: float) -> bool:
    """As `holds`, for a search: a rate so low that nothing arrives in the time there is may, and higher ones tell."""
    return holds(summary, attainment) is not False


def bracket(known: Mapping[float, bool]) -> tuple[float | None, float | None]:
    """The highest rate that holds below the lowest that fails, and the latter; noise may make a higher one hold."""
    failing = min((rate for rate, held in known.items() if not held), default=None)
    holding = [rate for rate, held in known.items() if held and (failing is None or rate < failing)]
    return max(holding, default=None), failing
