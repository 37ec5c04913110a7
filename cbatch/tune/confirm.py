"""Two ways to run the same rows, on the real engine in turns: whether the one that was chosen is the faster one.

Trials and cost models see parts of a job; what counts is the whole of it. The two alternate, so that a machine whose
speed drifts favours neither, and of each step what counts is the fastest time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from cbatch.config import SchedulerConfig
from cbatch.tune.goal import spread
from cbatch.tune.mix import shortened
from cbatch.tune.result import Confirmation
from cbatch.tune.setting import Setting
from cbatch.types import Request

PAIRS = 3
"""At most."""
_WANTED = 2
"""Pairs that rows are shortened for: the shorter they are, the less is a run like the job."""
_MOST_ROWS = 128
_LEAST_SHARE = 0.15
"""Of a row: shorter ones would tell nothing of the job."""
_SLACK = 1.2
"""Contexts to make, slots that run empty: what a run takes beyond what its rows take of the machine."""


@dataclass(frozen=True, slots=True)
class Way:
    """How to run rows."""

    setting: Setting
    slots: int
    scheduler: SchedulerConfig


Times = Sequence[int]
"""ns of each step."""
Run = Callable[[Way, Sequence[Request]], Times]


def rows_in_turns(rows: Sequence[Request], usual: Way, chosen: Way, pair_s: float, left_s: float) -> list[Request]:
    """Rows that fill the slots of both to the end, shortened alike so that some pairs fit into what is left.

    `pair_s`: what both take for a row. Nothing where even one pair of short rows doesn't fit.
    """
    some = spread(rows, min(_MOST_ROWS, math.lcm(usual.slots, chosen.slots)))
    share = left_s / (_SLACK * pair_s * len(some))
    if share < _LEAST_SHARE:
        return []
    share = max(_LEAST_SHARE, share / _WANTED)
    return some if share >= 1 else [shortened(row, share) for row in some]


def confirm(
    usual: Way, chosen: Way, rows: Sequence[Request], run: Run, rounds: Iterable[int], least: float = 1.0
) -> Confirmation:
    """A pair of runs in each of the rounds, of which there is one at least; who goes first alternates."""
    theirs: list[Times] = []
    ours: list[Times] = []
    for number in rounds:
        turns = [(usual, theirs), (chosen, ours)]
        for way, found in turns if number % 2 == 0 else turns[::-1]:
            found.append(run(way, rows))
    return Confirmation(
        setting=chosen.setting,
        slots=chosen.slots,
        usual_setting=usual.setting,
        usual_slots=usual.slots,
        ratio=_ratio(theirs, ours),
        pairs=tuple(sum(their) / sum(our) for their, our in zip(theirs, ours, strict=True)),
        rows=len(rows),
        least=least,
    )


def _ratio(theirs: Sequence[Times], ours: Sequence[Times]) -> float:
    """By the fastest time of each step; by the fastest run where runs of one way scheduled other steps."""
    if all(len({len(times) for times in runs}) == 1 for runs in (theirs, ours)):
        return undisturbed(theirs) / undisturbed(ours)
    return min(map(sum, theirs)) / min(map(sum, ours))


def undisturbed(runs: Sequence[Times]) -> int:
    """ns of the rows if each step had been as fast as it was in any of the runs, which all scheduled the same steps.

    Other programs only ever make a step slower, and seldom the same one in each run.
    """
    return sum(min(same) for same in zip(*runs, strict=True))
