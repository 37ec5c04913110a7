"""Whether requests came faster than they could be served: a queue that grows to the end. Knows times only."""

from __future__ import annotations

import math
from dataclasses import asdict, dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

Times = npt.NDArray[Any]
"""Times in ns, int64[n] or float64[n], in any order."""
MINIMUM = 10
"""Arrivals from which on a queue's growth says something."""


@dataclass(frozen=True, slots=True)
class Saturation:
    """The verdict, and the figures it rests on."""

    saturated: bool
    queue_middle: int
    """Requests waiting (arrived, no slot yet) at the middle of the arrivals' span."""
    queue_end: int
    """Requests waiting when the last one arrives, without those that arrive with it."""
    growth: int
    """queue_end - queue_middle."""
    threshold: float
    """What `queue_end` has to be above, in requests: 2 * sqrt(arrivals)."""
    arrivals: int

    def to_dict(self) -> dict[str, bool | float]:
        """JSON-ready."""
        return asdict(self)


def inside_at(times: Times, came: Times, left: Times) -> npt.NDArray[np.int64]:
    """How many are inside at each of `times`, int64[t]: came at or before it, and left after it.

    Of arrivals and admissions these are the requests that wait, of arrivals and finishes those in the system.
    `left` is +inf for what never left.
    """
    return np.searchsorted(np.sort(came), times, "right") - np.searchsorted(np.sort(left), times, "right")


def any_ended_meanwhile(arrivals_ns: Times, ended_ns: Times) -> bool:
    """Whether any request ended while others still came: before that, nothing says how fast they are served."""
    return arrivals_ns.size > 0 and bool(np.any((ended_ns < arrivals_ns.max()) & (ended_ns > arrivals_ns)))


def saturation(arrivals_ns: Times, left_ns: Times) -> Saturation | None:
    """Whether the queue grew to the end; None under 10 arrivals, or where all arrive at once.

    `left_ns` is when each request left the queue: when it got a slot, or ended without one, or +inf. Saturated means
    that after the middle of the arrivals' span the queue still grows, and that it's longer at the last arrival than
    chance explains. What comes at the very last moment doesn't count: it has had no time to be served, and a trace on
    coarse ticks would always end in a queue.

    A queue that starts empty and is served exactly as fast as n Poisson arrivals come is then about |N(0, n)| long
    (heavy traffic: a reflected Brownian motion; Whitt, Stochastic-Process Limits, 2002, chapter 9), so above
    2 * sqrt(n) with a probability of 5%; below capacity it's bounded, above it grows with n.
    """
    if arrivals_ns.size < MINIMUM or np.ptp(arrivals_ns) == 0:
        return None
    first, last = arrivals_ns.min(), arrivals_ns.max()
    middle = int(inside_at(np.array([first + (last - first) / 2]), arrivals_ns, left_ns)[0])
    end = int(np.count_nonzero((arrivals_ns < last) & (left_ns >= last)))
    threshold = 2 * math.sqrt(arrivals_ns.size)
    saturated = end > threshold and end > middle
    return Saturation(saturated, middle, end, end - middle, threshold, arrivals_ns.size)
