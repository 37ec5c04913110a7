"""A step's plan while it is being made."""

from __future__ import annotations

from dataclasses import dataclass, field

from cbatch.engine.runner import Move, Restore, Save, Shift, StepPlan, Swap, Work
from cbatch.engine.sequence import Sequence


@dataclass(slots=True)
class Draft:
    """What has been decided so far; see `StepPlan`."""

    admitted: list[Sequence] = field(default_factory=list)
    preempted: list[Sequence] = field(default_factory=list)
    swaps: list[Swap] = field(default_factory=list)
    moves: list[Move] = field(default_factory=list)
    restores: list[Restore] = field(default_factory=list)
    shifts: list[Shift] = field(default_factory=list)
    saves: list[Save] = field(default_factory=list)
    decodes: list[Work] = field(default_factory=list)
    prefills: list[Work] = field(default_factory=list)
    padding: list[Work] = field(default_factory=list)
    restored_tokens: int = 0
    ideal_tokens: int = 0

    def plan(self, step: int, freed: tuple[int, ...]) -> StepPlan:
        return StepPlan(
            step=step,
            freed=freed,
            decodes=tuple(self.decodes),
            prefills=tuple(self.prefills),
            admitted=tuple(self.admitted),
            padding=tuple(self.padding),
            swaps=tuple(self.swaps),
            preempted=tuple(self.preempted),
            moves=tuple(self.moves),
            restores=tuple(self.restores),
            shifts=tuple(self.shifts),
            saves=tuple(self.saves),
            restored_tokens=self.restored_tokens,
            ideal_tokens=self.ideal_tokens,
        )
