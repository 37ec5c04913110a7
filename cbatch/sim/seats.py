"""Which slot each sequence of a recorded run had in which step. Knows the engine's rules for slots, and no tables.

A record has the slot that a sequence had last. Where sequences were moved to close gaps, the others are found by giving
out slots again: the lowest free one to each that comes in, the last ones to the lowest holes where some were moved.
"""

from __future__ import annotations

import heapq
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field


@dataclass(eq=False)
class Run:
    """One sequence that ran."""

    slot: int
    """The last one, as recorded."""
    prompt: int
    """Tokens."""
    cached: int
    """Of these, restored."""
    first_step: int
    last_step: int
    token_steps: Sequence[int] = ()
    """Of each token, the step that sampled it."""
    seats: list[tuple[int, int]] = field(default_factory=list)
    """(step, slot) from then on, ascending; empty where only the last one is known."""

    @property
    def certain(self) -> bool:
        """Whether what was found ends with what was recorded."""
        return not self.seats or self.seats[-1][1] == self.slot

    def slot_in(self, step: int) -> int:
        """Where it was in a step."""
        return next((slot for since, slot in reversed(self.seats) if since <= step), self.slot)


def find_seats(runs: Sequence[Run], moved: Sequence[int], total: int, *, keep: bool) -> None:
    """Fill in `seats`, for `runs` in order of admission and the number of moves in each step.

    `keep`: slots are given back only when nothing runs any longer, as in static batching.
    """
    free = list(range(total))
    seated: dict[int, Run] = {}
    held: list[int] = []
    comes, goes = defaultdict(list), defaultdict(list)
    for run in runs:
        comes[run.first_step].append(run)
        goes[run.last_step].append(run)
    for step in sorted({*comes, *goes, *(i for i, count in enumerate(moved) if count)}):
        for run in comes[step]:
            if free:
                _seat(run, step, heapq.heappop(free), seated)
        if moved[step]:
            free = _close_gaps(seated, step, free, held)
        for run in goes[step]:
            if run.seats and seated.get(run.seats[-1][1]) is run:
                del seated[run.seats[-1][1]]
                held.append(run.seats[-1][1])
        if not (keep and seated):
            free = sorted([*free, *held])
            held.clear()


def _seat(run: Run, step: int, slot: int, seated: dict[int, Run]) -> None:
    run.seats.append((step, slot))
    seated[slot] = run


def _close_gaps(seated: dict[int, Run], step: int, free: list[int], held: list[int]) -> list[int]:
    """As `cbatch.engine.compaction`; returns the free slots, and changes those that are `held`."""
    last = sorted((slot for slot in seated if slot >= len(seated)), reverse=True)
    holes = [slot for slot in range(len(seated)) if slot not in seated]
    exchanged = dict(zip(holes, last, strict=True))
    for hole, slot in exchanged.items():
        _seat(seated.pop(slot), step, hole, seated)
    held[:] = [exchanged.get(slot, slot) for slot in held]
    return sorted(exchanged.get(slot, slot) for slot in free)
