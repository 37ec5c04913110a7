"""KV accounting by cells. llama.cpp places cells; this counts them, so that a sequence let in can always go on.

Knows slots and numbers only: whether slots own their cells (split) or share a pool (unified) is in the capacity.
"""

from __future__ import annotations

from cbatch.engine.runner import Capacity


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
        self._reserved: dict[int, int] = {}
        self._used: dict[int, int] = {}

    def fits(self, cells: int) -> bool:
        """Whether a sequence of `cells` could run here at all."""
        return cells <= self.static_cells

    @property
    def unreserved(self) -> int:
        return self.capacity.total_cells - self.reserved

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
        self.used += cells - self._used[slot]
        self._used[slot] = cells

    def room(self, slot: int) -> int:
        """Reserved cells of the slot that aren't filled yet."""
        return self._reserved[slot] - self._used[slot]

    def reservation(self, slot: int) -> int:
        """Cells promised to the slot's sequence."""
        return self._reserved[slot]

    def free(self, slot: int) -> None:
        """Take back everything of `slot`."""
        self.reserved -= self._reserved.pop(slot)
        self.used -= self._used.pop(slot)

    def exchange(self, one: int, other: int) -> None:
        """What is of the one slot is of the other now."""
        for table in (self._reserved, self._used):
            there = {slot: table.pop(slot) for slot in (one, other) if slot in table}
            table.update({other if slot == one else one: cells for slot, cells in there.items()})

    def check_integrity(self) -> None:
        """Assert that the totals are the sums of their parts and within the capacity."""
        assert self.reserved == sum(self._reserved.values())
        assert self.used == sum(self._used.values())
        assert self._used.keys() == self._reserved.keys()
        assert all(self._used[slot] <= cells for slot, cells in self._reserved.items())
        assert self.reserved <= self.capacity.total_cells
        assert len(self._reserved) <= self.capacity.max_num_seqs
