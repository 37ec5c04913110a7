"""Who waits, who has a slot, and who gives way. Knows KV cells as numbers; nothing of tokens to compute or budgets."""

from __future__ import annotations

from cbatch.config import SchedulerConfig
from cbatch.engine.admission import make_admission
from cbatch.engine.compaction import Compaction
from cbatch.engine.draft import Draft
from cbatch.engine.kv import KVManager
from cbatch.engine.preemption import by_sacrifice, victims
from cbatch.engine.prefix_cache import PrefixCache
from cbatch.engine.runner import Capacity, Move, Swap
from cbatch.engine.sequence import Sequence
from cbatch.engine.slots import Slots
from cbatch.engine.snapshot import Snapshot
from cbatch.engine.turns import Turns
from cbatch.engine.waiting import WaitingQueue

_GROWTH = 64
"""Cells beyond what is filled that overcommitted KV reserves for a sequence."""


class Places:
    """The queue, the slots, and the KV cells of one engine."""

    def __init__(self, config: SchedulerConfig, capacity: Capacity, prefixes: PrefixCache) -> None:
        self.waiting = WaitingQueue(config.ageing_ns)
        self.turns = Turns(config, self.waiting, prefixes)
        self.running: list[Sequence] = []
        """In order of admission."""
        self.held: list[Sequence] = []
        """Finished sequences whose slots stay taken, by the rule of admission."""
        self.padded: list[Sequence] = []
        """Held ones that were computed on after they had finished, and are let go now: the runner is to forget them."""
        self.admission = make_admission(config)
        self.compaction = Compaction()
        self._config = config
        self._prefixes = prefixes
        self._prefixes.store.let_go = self._let_snapshot_go
        self.resize(capacity)

    def resize(self, capacity: Capacity) -> None:
        """Take over a new context. No sequence may be running; its slots are all empty."""
        assert not self.running
        assert not self.held
        while self._prefixes.store.evict_shared(wanted=True):  # they were cells of the old one
            pass
        self.kv = KVManager(capacity)
        self.slots = Slots(min(self._config.max_num_seqs, capacity.max_num_seqs))

    def add(self, seq: Sequence) -> None:
        """A new sequence waits."""
        self.waiting.push(seq)
        self._prefixes.add(seq)

    def admit(self, draft: Draft, now_ns: int) -> None:
        """Let in those whose turn it is, as far as there is room or others give way."""
        allowed = self.admission.allowed(len(self.running), self.waiting, now_ns)
        while len(draft.admitted) < allowed and (seq := self.turns.next(self._has_room)) is not None:
            cells = self._cells_for(seq)
            has_place = self.slots and self._make_room(cells)
            if not has_place and not self._displace(draft, seq, cells):
                return
            self._enter(draft, seq, cells, now_ns)

    def _make_room(self, cells: int) -> bool:
        """Whether so many cells can be reserved, for which snapshots of the pool's own cells may have to go."""
        while not self.kv.can_admit(cells):
            if not self.kv.fits(cells) or not self._prefixes.store.evict_shared(wanted=not self.running):
                return False
        return True

    def _let_snapshot_go(self, snapshot: Snapshot) -> None:
        if snapshot.shared:
            self.kv.let_go(snapshot)

    def keep(self, seq: Sequence, snapshot: Snapshot) -> None:
        """A snapshot of a running sequence is kept."""
        if snapshot.shared:
            assert seq.slot is not None
            self.kv.keep(seq.slot, snapshot)

    def _has_room(self, seq: Sequence) -> bool:
        return self.kv.can_admit(self._cells_for(seq))

    def _enter(self, draft: Draft, seq: Sequence, cells: int, now_ns: int) -> None:
        self.waiting.withdraw(seq)
        self._prefixes.enter(seq)
        seq.slot = self.slots.take()
        self.kv.admit(seq.slot, cells)
        if seq.admitted_ns is None:
            seq.admitted_ns = now_ns
        self.running.append(seq)
        self.turns.entered(seq)
        draft.admitted.append(seq)

    def _displace(self, draft: Draft, seq: Sequence, cells: int) -> bool:
        """Make room for a sequence at the cost of others, if enough of those that run give way to it."""
        if self._config.preempt == "off" or self.admission.keeps_slots or not self.kv.fits(cells):
            return False
        settled = [each for each in self.running if each not in draft.admitted]  # who came in just now stays
        chosen: list[Sequence] = []
        room = self.kv.unreserved
        for victim in victims(settled, seq, self.waiting.rank):
            assert victim.slot is not None
            chosen.append(victim)
            room += self.kv.own(victim.slot)
            if room >= cells:
                break
        if not chosen or room < cells:
            return False
        for victim in chosen:
            self._preempt(draft, victim)
        return True

    def _preempt(self, draft: Draft, seq: Sequence) -> None:
        """Take the slot of a running sequence. It waits again once the draft is done."""
        assert seq.slot is not None
        self.running.remove(seq)
        self._prefixes.release(seq)
        # what a shifted sequence has of the tokens that it dropped can't be computed again
        if (self._config.preempt == "swap" or seq.num_dropped) and seq.num_computed > 0:
            draft.swaps.append(Swap(seq, seq.slot))
        self._let_slot_go(seq)
        seq.slot = None
        seq.num_computed = 0
        self._prefixes.hold(seq)
        seq.preemptions += 1
        draft.preempted.append(seq)

    def _cells_for(self, seq: Sequence) -> int:
        """What to reserve: as much as it can come to fill; in a padded batch, which goes on past that, a full share."""
        needed = seq.request.cells_needed
        if self._config.kv_overcommit:
            return min(needed, seq.num_tokens + _GROWTH)
        if not self.admission.pads:
            return needed
        share = min(self.kv.capacity.cells_per_seq, self.kv.capacity.total_cells // self.slots.total)
        return max(needed, share)

    def grow(self, draft: Draft) -> None:
        """With overcommitted KV, see to it that every running sequence has a cell for its next token."""
        while self.kv.unreserved < 0 and len(self.running) > 1:  # some have lost cells that they shared
            if not self._prefixes.store.evict_shared(wanted=False):
                self._preempt(draft, by_sacrifice(self.running)[0])
        if not self._config.kv_overcommit:
            return
        for seq in list(self.running):
            while seq.slot is not None and not self._has_cell(seq, seq.slot):
                alone = len(self.running) == 1
                if self._prefixes.store.evict_shared(wanted=alone):
                    continue
                if alone and self.held:
                    self._let_go()
                else:
                    self._preempt(draft, by_sacrifice(self.running)[0])

    def _has_cell(self, seq: Sequence, slot: int) -> bool:
        most = seq.request.cells_needed  # one that outgrows them drops tokens instead
        return self.kv.grow(slot, min(most, seq.num_tokens), min(most, seq.num_tokens + _GROWTH))

    def compact(self, draft: Draft) -> None:
        """Close the gaps between slots, where nobody will come to fill them."""
        filled = len(self.waiting) > 0 and not self.admission.keeps_slots
        if (
            filled
            or draft.preempted
            or self.admission.pads
            or not self._config.compact
            or not self.kv.capacity.holes_cost
        ):
            return
        moves = self.compaction.moves(self.running)
        if moves and any(seq.num_pending > 1 for seq in self.running):
            return
        for seq, target in moves:
            source = seq.slot
            assert source is not None
            draft.moves.append(Move(seq, source))
            for held in self.held:
                if held.slot == target:
                    held.slot = source
            self.kv.exchange(source, target)
            self.slots.exchange(source, target)
            seq.slot = target

    def leave(self) -> list[Sequence]:
        """Take finished sequences out of those that run, and let go of slots and cells that aren't kept."""
        finished = [seq for seq in self.running if seq.finish_reason is not None]
        if finished:
            self.running = [seq for seq in self.running if seq.finish_reason is None]
            self.held += finished
            self.turns.ended(finished)
            for seq in finished:
                self._prefixes.drop(seq)
            if not (self.admission.keeps_slots and self.running):
                self._let_go()
        return finished

    def _let_go(self) -> None:
        for seq in self.held:
            self._let_slot_go(seq)
        if self.admission.pads:
            self.padded += self.held
        self.held.clear()

    def _let_slot_go(self, seq: Sequence) -> None:
        assert seq.slot is not None
        self.kv.free(seq.slot)
        self.slots.give_back(seq.slot)

    def withdraw(self, seq: Sequence) -> None:
        """A waiting sequence goes."""
        self.waiting.withdraw(seq)
        self._prefixes.drop(seq)

    def tokens_by_slot(self) -> dict[int, int]:
        """What each slot should hold, but for those given back that the runner hasn't been told of, or only held."""
        idle = set(self.slots.free()).difference(self.slots.freed)
        running = {seq.slot: seq.num_computed for seq in self.running if seq.slot is not None}
        return {**dict.fromkeys(idle, 0), **running}

    def check_integrity(self) -> None:
        """Assert that every slot is free or has one sequence, and that cells are accounted for. For tests."""
        self.kv.check_integrity()
        seqs = [*self.running, *self.held]
        taken = [seq.slot for seq in seqs if seq.slot is not None]
        assert len(taken) == len(seqs)
        assert sorted([*taken, *self.slots.free()]) == list(range(self.slots.total))
        assert self.kv.used == sum(seq.num_computed for seq in seqs)
        assert self.kv.reserved == sum(self.kv.reservation(slot) for slot in taken)
        if not self._config.kv_overcommit:
            assert self.kv.reserved == sum(self._cells_for(seq) for seq in seqs)
        assert self.running or not self.held
        for seq in self.running:
            assert seq.finish_reason is None
            assert 0 <= seq.num_computed < seq.num_tokens
