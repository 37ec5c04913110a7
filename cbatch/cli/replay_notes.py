"""What the user should know beside the figures of a replay. Knows how replays go, and prints nothing."""

from __future__ import annotations

import math
from collections.abc import Iterator

from cbatch.cli.replay_options import ReplayOptions
from cbatch.driver import Ending, Outcome
from cbatch.metrics import ReplaySummary

_ENDS = ("max_tokens", "stop", "stop_token_id")


def conditions(options: ReplayOptions) -> Iterator[str]:
    """What the figures have to be read with."""
    limit = options.max_concurrency
    if options.closed_loop:
        yield f"closed loop: {limit:,} requests in flight, each arriving when another ends"
    elif limit is not None:
        yield f"at most {limit:,} requests in flight: the wait for a place among them counts as slip"
    elif options.request_rate == math.inf:
        yield "all requests arrive at once"


def unused(options: ReplayOptions, forced: int) -> Iterator[str]:
    """Options that say how outputs end, where a trace does for so many (`forced`) of its requests."""
    given = [f"--{name.replace('_', '-')}" for name in _ENDS if name in options.given]
    if given and forced and not options.natural_lengths:
        yield (
            f"{' and '.join(given)} changed nothing for the {forced:,} requests of which the trace says how long their "
            "outputs get: --natural-lengths lets the model stop"
        )


def findings(summary: ReplaySummary, outcome: Outcome) -> Iterator[str]:
    """What the user should know of how it went."""
    if summary.failed:
        yield f"{summary.failed:,} requests failed: see error_code and error in the results"
    if outcome.ending is Ending.TIME_UP:
        yield f"{summary.unfinished:,} requests were unfinished when the time was up, and were cancelled"
    elif outcome.ending is not Ending.COMPLETE:
        yield (
            f"{outcome.ending.value} on request: what had arrived and was left ({outcome.rows_left:,} or more) is "
            "in no figure, so latencies and attainment look better than they were"
        )
