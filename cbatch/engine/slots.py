"""Which slots are free. The lowest is handed out first, so that those in use stay together."""

from __future__ import annotations

import heapq


class Slots:
    """Slots 0 to n - 1. A slot given back holds KV until a runner has been told, by `freed`."""

    def __init__(self, n: int) -> None:
        self.total = n
        self._free = list(range(n))
        self.freed: list[int] = []
        """Given back since a runner was last told."""

    def __bool__(self) -> bool:
        """Whether one is free."""
        return bool(self._free)

    def take(self) -> int:
        return heapq.heappop(self._free)

    def give_back(self, slot: int) -> None:
        heapq.heappush(self._free, slot)
        self.freed.append(slot)

    def exchange(self, one: int, other: int) -> None:
        """Whichever of the two is free, the other one is now; the runner is told of moves in another way."""
        if (one in self._free) == (other in self._free):
            return
        self._free = [{one: other, other: one}.get(slot, slot) for slot in self._free]
        heapq.heapify(self._free)

    def free(self) -> list[int]:
        """Ascending."""
        return sorted(self._free)
