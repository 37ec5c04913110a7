"""A runner that computes nothing: for tests of everything above the model, in milliseconds.

It ships with the package, so that whoever builds on the engine can test on it too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, replace
from itertools import count
from weakref import WeakSet

import numpy as np

from cbatch.clock import Clock, VirtualClock
from cbatch.engine.runner import (
    CallTiming,
    Capacity,
    Failed,
    Move,
    Restore,
    Sampled,
    Shift,
    StepPlan,
    StepResult,
    Work,
)
from cbatch.engine.sequence import Sequence
from cbatch.types import Tokens


def letters(seq: Sequence) -> int:
    """The default token rule: depends on prompt and position only, and never on the company."""
    return 97 + (int(seq.request.prompt.sum()) + 7 * seq.num_output) % 26


def one_millisecond(_decodes: int, _prefill_tokens: int) -> int:
    """The default step cost."""
    return 1_000_000


@dataclass(frozen=True, eq=False)
class FakeSnapshot:
    """The tokens whose KV it would hold, a byte each."""

    tokens: Tokens
    cells: tuple[int, ...] = ()
    """The pool's own, where it shares them."""

    @property
    def num_tokens(self) -> int:
        return int(self.tokens.size)

    @property
    def num_bytes(self) -> int:
        return int(self.tokens.size)

    @property
    def shared(self) -> bool:
        return bool(self.cells)


class FakeRunner:
    """Samples tokens by a rule and lets virtual time pass; checks that plans are consistent with what it was given.

    `cost_ns` maps (decode tokens, prefill tokens) of a call to its duration. A step is one call, or with `split_calls`
    one for decodes and one for prompts. `faults` maps a request id to the number
    of computed tokens at which it fails. `memory_cells` bounds `grow`. Saving or restoring a token takes
    `copy_ns_per_token`; without `cuts` a snapshot serves its exact length only; with `shares` it is made of the pool's
    own cells, of which no more may be in use than there are. A sequence whose id is in `loses` can
    be neither restored nor shifted.
    """

    def __init__(
        self,
        *,
        max_num_seqs: int = 8,
        cells_per_seq: int = 1 << 20,
        total_cells: int | None = None,
        clock: VirtualClock | None = None,
        next_token: Callable[[Sequence], int] = letters,
        cost_ns: Callable[[int, int], int] = one_millisecond,
        faults: dict[str, int] | None = None,
        memory_cells: int | None = None,
        split_calls: bool = False,
        keep_plans: bool = True,
        copy_ns_per_token: int = 0,
        cuts: bool = True,
        holes_cost: bool = False,
        shifts: bool = True,
        shares: bool = False,
        loses: frozenset[str] = frozenset(),
    ) -> None:
        total = max_num_seqs * cells_per_seq if total_cells is None else total_cells
        self._capacity = Capacity(max_num_seqs, cells_per_seq, total, cuts=cuts, holes_cost=holes_cost, shifts=shifts)
        self._copy_ns = copy_ns_per_token
        self._loses = loses
        self._time = clock if clock is not None else VirtualClock()
        self.clock: Clock = self._time
        self.next_token = next_token
        self.cost_ns = cost_ns
        self.faults = faults if faults is not None else {}
        self.memory_cells = memory_cells
        self.split_calls = split_calls
        self.plans: list[StepPlan] = []
        """Every plan run, for tests to look at; empty without `keep_plans`."""
        self._keep_plans = keep_plans
        self._cells: dict[int, tuple[Sequence, list[int]]] = {}
        """By slot, whose tokens it holds and which."""
        self._shares = shares
        self._pool: dict[int, list[int]] = {}
        """By slot, the cells of the pool that these tokens are in; only with `shares`."""
        self._parked: WeakSet[FakeSnapshot] = WeakSet()
        self._numbers = count()

    @property
    def capacity(self) -> Capacity:
        return self._capacity

    def run(self, plan: StepPlan) -> StepResult:
        if self._keep_plans:
            self.plans.append(plan)
        result = StepResult()
        for seq, slot in plan.swaps:
            self._save(seq, slot, result)
        for slot in plan.freed:
            self._cells.pop(slot, None)
            self._pool.pop(slot, None)
        for move in plan.moves:
            self._move(move, result)
        for restore in plan.restores:
            self._restore(restore, result)
        for shift in plan.shifts:
            self._shift(shift, result)
        self._check_tokens(plan)
        for decodes, prefills in self._calls(plan, result):
            self._call(decodes, prefills, result)
        for seq, length, share in plan.saves:
            assert seq.slot is not None
            owner, held = self._cells.get(seq.slot, (None, []))
            if owner is seq and len(held) == length:
                self._save(seq, seq.slot, result, share=share and self._shares)
        return result

    def _save(self, seq: Sequence, slot: int, result: StepResult, *, share: bool = False) -> None:
        owner, held = self._cells[slot]
        assert owner is seq, f"slot {slot} holds {owner.id}, not {seq.id}"
        taken = FakeSnapshot(np.array(held, np.int32), tuple(self._pool[slot]) if share else ())
        result.saved[seq] = taken
        self._parked.add(taken)
        result.save_ns += self._pass(len(held) * self._copy_ns)

    def _restore(self, restore: Restore, result: StepResult) -> None:
        seq, snapshot, length = restore
        assert isinstance(snapshot, FakeSnapshot)
        assert seq.slot not in self._cells, f"{seq.id} is restored into slot {seq.slot}, which isn't empty"
        assert seq.slot is not None
        assert length == snapshot.num_tokens or (self._capacity.cuts and length < snapshot.num_tokens)
        if seq.id in self._loses:
            result.rewound[seq] = 0
            return
        self._cells[seq.slot] = (seq, snapshot.tokens[:length].tolist())
        self._pool[seq.slot] = list(snapshot.cells[:length]) or self._new_cells(length)
        result.restore_ns += self._pass(snapshot.num_tokens * self._copy_ns)

    def _shift(self, shift: Shift, result: StepResult) -> None:
        seq, keep, dropped = shift
        assert self._capacity.shifts
        assert seq.slot is not None
        if seq in result.rewound:
            return
        owner, held = self._cells[seq.slot]
        assert owner is seq
        assert keep + dropped <= len(held)
        if seq.id in self._loses:
            del self._cells[seq.slot]
            self._pool.pop(seq.slot, None)
            result.rewound[seq] = 0
            return
        del held[keep : keep + dropped]
        self._pool[seq.slot] = self._new_cells(len(held))  # a copy: others' cells can't be shifted

    def _check_tokens(self, plan: StepPlan) -> None:
        for seq in {restore.seq for restore in plan.restores} | {shift.seq for shift in plan.shifts}:
            assert seq.slot is not None
            _, held = self._cells.get(seq.slot, (seq, []))
            assert held == seq.tokens(0, len(held)).tolist(), f"{seq.id} gets another's tokens"

    def _move(self, move: Move, result: StepResult) -> None:
        assert move.seq.slot is not None
        self._cells.pop(move.seq.slot, None)  # of a finished one, whose slot is only kept by a rule
        self._pool.pop(move.seq.slot, None)
        if move.source not in self._cells:  # a prompt of one token that isn't computed yet
            result.rewound[move.seq] = 0
            return
        assert self._cells[move.source][0] is move.seq
        self._cells[move.seq.slot] = self._cells.pop(move.source)
        self._pool[move.seq.slot] = self._pool.pop(move.source)

    def _pass(self, ns: int) -> int:
        self._time.advance(ns)
        return ns

    def _calls(self, plan: StepPlan, result: StepResult) -> list[tuple[tuple[Work, ...], tuple[Work, ...]]]:
        """(decodes, prefills) of each call."""
        lost = result.rewound.keys()
        decodes = tuple(work for work in (*plan.decodes, *plan.padding) if work.seq not in lost)
        prefills = tuple(work for work in plan.prefills if work.seq not in lost)
        if decodes and prefills and self.split_calls:
            return [(decodes, ()), ((), prefills)]
        return [(decodes, prefills)] if decodes or prefills else []

    def _call(self, decodes: tuple[Work, ...], prefills: tuple[Work, ...], result: StepResult) -> None:
        start = self.clock.now_ns()
        self._time.advance(self.cost_ns(len(decodes), sum(work.length for work in prefills)))
        kind = "decode" if not prefills else "mixed" if decodes else "prefill"
        works = (*decodes, *prefills)
        result.calls.append(CallTiming(kind, start, self.clock.now_ns(), works))
        for work in works:
            self._compute(work, result)
        if self._shares:
            taken = set().union(*self._pool.values(), *(parked.cells for parked in self._parked))
            assert len(taken) <= self._capacity.total_cells, "more cells are in use than there are"

    def _new_cells(self, length: int) -> list[int]:
        return [next(self._numbers) for _ in range(length)] if self._shares else []

    def _compute(self, work: Work, result: StepResult) -> None:
        seq = work.seq
        assert seq.slot is not None
        owner, held = self._cells.setdefault(seq.slot, (seq, []))
        assert owner is seq, f"slot {seq.slot} still holds {owner.id}"
        assert len(held) == work.start, f"{seq.id} continues at {work.start}, its slot holds {len(held)}"
        held += work.tokens().tolist()
        self._pool.setdefault(seq.slot, []).extend(self._new_cells(work.length))
        if seq.id in self.faults and work.start + work.length >= self.faults[seq.id]:
            result.failed.append(Failed(seq, "fault injected"))
        elif work.samples:
            result.sampled.append(Sampled(seq, self.next_token(seq), self.clock.now_ns()))

    def finish(self, seq: Sequence) -> str:
        """A character for each token."""
        return "".join(map(chr, seq.answer))

    def grow(self, cells_per_seq: int) -> Capacity:
        if self.memory_cells is not None and cells_per_seq <= self.memory_cells:
            self._cells.clear()
            self._pool.clear()
            slots = min(self._capacity.max_num_seqs, self.memory_cells // cells_per_seq)
            self._capacity = replace(
                self._capacity, max_num_seqs=slots, cells_per_seq=cells_per_seq, total_cells=slots * cells_per_seq
            )
        return self._capacity

    def num_tokens(self, slot: int) -> int:
        return len(self._cells[slot][1]) if slot in self._cells else 0

    def abort(self) -> None:
        pass
