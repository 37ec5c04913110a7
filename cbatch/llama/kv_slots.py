"""What becomes of slots' KV before and after a step computes: snapshots, moves, shifts. Knows no batches, no text."""

from __future__ import annotations

from cbatch.clock import Clock
from cbatch.engine.runner import Move, Restore, Shift, StepPlan, StepResult
from cbatch.engine.sequence import Sequence
from cbatch.engine.snapshot import Snapshot
from cbatch.llama.context import Context
from cbatch.llama.memory import kv_bytes_per_cell
from cbatch.llama.snapshot import HostSnapshot, Parked, Parking, restore, save


class KVSlots:
    """The slots of one context. A sequence whose KV is lost is in the result's `rewound`."""

    def __init__(self, context: Context, clock: Clock) -> None:
        self._bytes_per_cell = kv_bytes_per_cell(context.model, context.config)
        self._context = context
        self._clock = clock
        self._parking = Parking(context)

    def prepare(self, plan: StepPlan, result: StepResult) -> None:
        """Everything that comes before computing: swaps, slots given back, moves, restores, shifts."""
        start = self._clock.now_ns()
        for seq, slot in plan.swaps:
            self._keep(seq, slot, result)
        saved = self._clock.now_ns()
        for slot in plan.freed:
            self._context.clear(slot)
        for move in plan.moves:
            self._move(move, result)
        moved = self._clock.now_ns()
        for wanted in plan.restores:
            self._restore(wanted, result)
        for shift in plan.shifts:
            self._shift(shift, result)
        result.save_ns += saved - start if plan.swaps else 0
        result.move_ns += moved - saved if plan.moves else 0
        result.restore_ns += self._clock.now_ns() - moved if plan.restores else 0

    def save(self, plan: StepPlan, result: StepResult) -> None:
        """What comes after computing."""
        start = self._clock.now_ns()
        for seq, length, share in plan.saves:
            if seq.slot is None or not self._context.is_intact(seq.slot, length):
                continue
            parked = self._parking.park(seq.slot, self._bytes_per_cell) if share else None
            if parked is not None:
                result.saved[seq] = parked
            else:
                self._keep(seq, seq.slot, result)
        result.save_ns += self._clock.now_ns() - start if plan.saves else 0

    def _keep(self, seq: Sequence, slot: int, result: StepResult) -> None:
        taken = save(self._context, slot)
        if taken is not None:
            result.saved[seq] = taken

    def _move(self, move: Move, result: StepResult) -> None:
        """In split mode slots are streams of their own, so a move is a copy through the host."""
        target = move.seq.slot
        assert target is not None
        taken = save(self._context, move.source)
        self._context.clear(move.source)
        self._context.clear(target)  # a finished sequence, whose slot is only kept by a rule, may have left its KV
        if taken is None or not restore(self._context, target, taken):
            result.rewound[move.seq] = 0

    def _restore(self, wanted: Restore, result: StepResult) -> None:
        seq, taken, length = wanted
        assert seq.slot is not None
        if not self._put_back(seq.slot, taken, length):
            self._context.clear(seq.slot)
            result.rewound[seq] = 0

    def _put_back(self, slot: int, taken: Snapshot, length: int) -> bool:
        """Whether the first `length` tokens of a snapshot are in the slot."""
        if isinstance(taken, Parked):
            return self._context.fork(taken.seq_id, slot, length)
        assert isinstance(taken, HostSnapshot)
        if not restore(self._context, slot, taken):
            return False
        return length == taken.num_tokens or self._context.cut(slot, length)

    def _shift(self, shift: Shift, result: StepResult) -> None:
        """The keys are rotated by the next call, which this sequence's next token is in, or one after that."""
        seq, keep, length = shift
        assert seq.slot is not None
        if seq not in result.rewound and not self._context.shift(seq.slot, keep, length):
            self._context.clear(seq.slot)
            result.rewound[seq] = 0
