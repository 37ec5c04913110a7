"""Replays: one of them (`Replay`), many at rising rates, and the search for the highest rate that holds an SLO.

Knows the driver and the metrics; builds no model, reads no trace and shows nothing.
"""

from cbatch.replay.capacity import Capacity, bracket, find_capacity, holds, may_hold
from cbatch.replay.rates import parse_rates
from cbatch.replay.replay import Replay, warm_up

__all__ = ["Capacity", "Replay", "bracket", "find_capacity", "holds", "may_hold", "parse_rates", "warm_up"]
