"""Closing the gaps between busy slots, where that pays. Knows no scheduler and no KV accounting.

With a stream of KV a slot, llama.cpp computes each run of neighbouring slots by itself, and reads all weights for each:
a decode call of s sequences in r runs takes about a r + b s. Both are learned from the calls that were made, by least
squares; a move costs what earlier moves cost. At the end of a job, when nothing fills the gaps any more, they are worth
closing.
"""

from __future__ import annotations

from collections.abc import Iterable
from itertools import pairwise

from cbatch.engine.runner import StepPlan, StepResult
from cbatch.engine.sequence import Sequence

_KEPT = 0.98
"""Of the sums, at each call: calls half as old as 35 others count most."""
_LEAST_LEFT = 16
"""Tokens that a sequence is taken to go on for, whatever it has shown."""


class Compaction:
    """What runs of slots cost here, and which moves would pay."""

    def __init__(self) -> None:
        self._rr = self._rs = self._ss = self._rt = self._st = 0.0
        self._move_ns = 0.0
        self._moved_tokens = 0.0

    def learn(self, plan: StepPlan, result: StepResult) -> None:
        """Take the times of a step."""
        for call in result.calls:
            if call.kind == "decode" and call.works:
                slots = [work.seq.slot for work in call.works if work.seq.slot is not None]
                self._learn_call(runs(slots), len(slots), call.end_ns - call.start_ns)
        if plan.moves and result.move_ns:
            self._move_ns += result.move_ns
            self._moved_tokens += sum(move.seq.num_computed for move in plan.moves)

    def _learn_call(self, r: int, s: int, t: int) -> None:
        self._rr = self._rr * _KEPT + r * r
        self._rs = self._rs * _KEPT + r * s
        self._ss = self._ss * _KEPT + s * s
        self._rt = self._rt * _KEPT + r * t
        self._st = self._st * _KEPT + s * t

    @property
    def run_ns(self) -> float:
        """What one more run costs a call; 0 while that can't be told."""
        determinant = self._rr * self._ss - self._rs * self._rs
        if determinant <= 1e-6 * self._rr * self._ss:
            return 0.0
        return max(0.0, (self._rt * self._ss - self._st * self._rs) / determinant)

    def moves(self, running: Iterable[Sequence]) -> list[tuple[Sequence, int]]:
        """(sequence, new slot) that bring the sequences into the lowest slots, if the gain exceeds the cost."""
        busy = {seq.slot: seq for seq in running if seq.slot is not None}
        if max(busy, default=-1) < len(busy):
            return []
        holes = [slot for slot in range(len(busy)) if slot not in busy]
        last = sorted((slot for slot in busy if slot >= len(busy)), reverse=True)
        moves = [(busy[slot], hole) for slot, hole in zip(last, holes, strict=True)]
        saved_runs = runs(busy) - 1
        if saved_runs == 0:
            return []
        steps = sum(expected_left(seq) for seq, _ in moves) / len(moves)
        tokens = sum(seq.num_computed for seq, _ in moves)
        return moves if saved_runs * self.run_ns * steps > tokens * self._token_ns else []

    @property
    def _token_ns(self) -> float:
        """What moving a token takes; nothing is known of it before the first move, which is made to learn it."""
        return self._move_ns / self._moved_tokens if self._moved_tokens else 0.0


def runs(slots: Iterable[int]) -> int:
    """How many groups of neighbouring numbers these are."""
    ordered = sorted(slots)
    return sum([b - a > 1 for a, b in pairwise(ordered)]) + bool(ordered)


def expected_left(seq: Sequence) -> int:
    """Tokens that a sequence will go on for: as many as it has had, within its limits (Lindy's rule, as a guess)."""
    left = seq.request.sampling.max_tokens - seq.num_output
    if seq.request.sampling.ignore_eos:
        return left
    return min(left, max(_LEAST_LEFT, seq.num_output))
