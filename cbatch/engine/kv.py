"""KV accounting by cells. llama.cpp places cells; this counts them, so that a sequence let in can always go on.

Knows slots and numbers only: whether slots own their cells (split) or share a pool (unified) is in the capacity.
"""

from __future__ import annotations

from cbatch.engine.runner import Capacity
from cbatch.engine.snapshot import Snapshot


class _Block:
    """Cells of a shared prefix, those beyond its parent's; they are there as long as anybody uses them."""

    __slots__ = ("cells", "parent", "users")

    def __init__(self, cells: int, parent: _Block | None) -> None:
        self.cells = cells
        self.parent = parent
        self.users = 2  # the snapshot, and the sequence that it is of


class KVManager:
    """Cells reserved and used per slot.

    A slot's reservation is made on admission. Where it covers the longest that its sequence can get, growth never
    fails; where it doesn't (overcommit), `grow` may find no room, and somebody has to give way.
    """

    def __init__(self, capacity: Capacity) -> None:
        self.capacity = capacity
        self.used = 0
        """Cells that hold computed tokens."""
        self.reserved = 0
        """Cells promised to admitted sequences."""
        self.saved = 0
        """Of both, cells counted for several sequences that are there once; less those that only snapshots use."""
        self._reserved: dict[int, int] = {}
        self._used: dict[int, int] = {}
        self._sharing: dict[int, tuple[_Block, int]] = {}
        """By slot: the last block of its first tokens, and how many tokens they are."""
        self._blocks: dict[Snapshot, _Block] = {}

    def fits(self, cells: int) -> bool:
        """Whether a sequence of `cells` could run here at all."""
        return cells <= self.static_cells

    @property
    def unreserved(self) -> int:
        return self.capacity.total_cells - self.reserved + self.saved

    @property
    def static_cells(self) -> int:
        """What static reservation would hold for one sequence: as much as any may fill."""
        return min(self.capacity.cells_per_seq, self.capacity.total_cells)

    def can_admit(self, cells: int) -> bool:
        """Whether a sequence that may come to fill `cells` can be let in now."""
        return self.fits(cells) and cells <= self.unreserved

    def admit(self, slot: int, cells: int) -> None:
        """Reserve `cells` for the sequence that enters `slot`."""
        assert slot not in self._reserved, f"slot {slot} is taken"
        assert self.can_admit(cells), f"{cells} cells don't fit"
        self._reserved[slot] = cells
        self._used[slot] = 0
        self.reserved += cells

    def grow(self, slot: int, needed: int, wanted: int) -> bool:
        """Make the slot's reservation cover `needed` cells; `wanted` >= needed if there is room. False without any."""
        more = needed - self._reserved[slot]
        if more <= 0:
            return True
        if more > self.unreserved:
            return False
        more = min(wanted - self._reserved[slot], self.unreserved)
        self._reserved[slot] += more
        self.reserved += more
        return True

    def set_used(self, slot: int, cells: int) -> None:
        """The sequence in `slot` fills `cells` now."""
        assert cells <= self._reserved[slot], f"slot {slot} outgrew its reservation"
        growth = cells - self._used[slot]
        if growth < 0 and cells < self._shared(slot):  # it has lost them
            self._unshare(slot)
        self.used += growth
        self._used[slot] = cells

    def room(self, slot: int) -> int:
        """Reserved cells of the slot that aren't filled yet."""
        return self._reserved[slot] - self._used[slot]

    def reservation(self, slot: int) -> int:
        """Cells promised to the slot's sequence."""
        return self._reserved[slot]

    def own(self, slot: int) -> int:
        """Cells of the reservation that the slot doesn't share: what can be counted on if it is freed."""
        return self._reserved[slot] - self._shared(slot)

    def _shared(self, slot: int) -> int:
        """First cells of the slot that are a block's."""
        return self._sharing[slot][1] if slot in self._sharing else 0

    def keep(self, slot: int, snapshot: Snapshot) -> None:
        """A snapshot shares the first tokens of `slot`, beyond what that shared before."""
        block, length = self._sharing.get(slot, (None, 0))
        assert snapshot.num_tokens > length
        self._blocks[snapshot] = own = _Block(snapshot.num_tokens - length, block)
        self._sharing[slot] = (own, snapshot.num_tokens)

    def share(self, slot: int, snapshot: Snapshot, length: int) -> None:
        """`slot`, which is empty, gets the first `length` cells of a snapshot, to share."""
        assert self._used[slot] == 0
        block = self._blocks[snapshot]
        block.users += 1
        self._sharing[slot] = (block, length)
        self.saved += length
        self.set_used(slot, length)

    def let_go(self, snapshot: Snapshot) -> None:
        """A snapshot is no more."""
        self._release(self._blocks.pop(snapshot))

    def _release(self, block: _Block) -> None:
        block.users -= 1
        if block.users == 0:
            self.saved += block.cells
            if block.parent is not None:
                self._release(block.parent)

    def _unshare(self, slot: int) -> None:
        if slot in self._sharing:
            block, length = self._sharing.pop(slot)
            self.saved -= length
            self._release(block)

    def free(self, slot: int) -> None:
        """Take back everything of `slot`."""
        self._unshare(slot)
        self.reserved -= self._reserved.pop(slot)
        self.used -= self._used.pop(slot)

    def exchange(self, one: int, other: int) -> None:
        """What is of the one slot is of the other now."""
        assert not self._sharing, "only streams have gaps, and they share nothing"
        for table in (self._reserved, self._used):
            there = {slot: table.pop(slot) for slot in (one, other) if slot in table}
            table.update({other if slot == one else one: cells for slot, cells in there.items()})

    def check_integrity(self) -> None:
        """Assert that the totals are the sums of their parts and within the capacity."""
        assert self.reserved == sum(self._reserved.values())
        assert self.used == sum(self._used.values())
        assert self._used.keys() == self._reserved.keys()
        assert all(self._used[slot] <= cells for slot, cells in self._reserved.items())
        assert self.saved == sum(length for _, length in self._sharing.values()) - self._held_in_blocks()
        assert len(self._reserved) <= self.capacity.max_num_seqs

    def _held_in_blocks(self) -> int:
        found: set[_Block] = set()
        for used in (*self._blocks.values(), *(block for block, _ in self._sharing.values())):
            block: _Block | None = used
            while block is not None:
                found.add(block)
                block = block.parent
        return sum(block.cells for block in found)
