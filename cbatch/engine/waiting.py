"""The queue of sequences without a slot: by rank, then order of enqueueing.

A sequence's rank is its arrival plus its priority times the ageing: of equal priorities the earlier arrival is first, a
higher priority (a lower number) goes ahead of all that arrived up to `ageing_ns` before for each step of priority, and
none can be overtaken for ever. Ranks don't change with time, so the order of two that wait never does either. Once
nothing more arrives, none needs that care, and the queue may be arranged in any other order.
"""

from __future__ import annotations

import heapq
from collections import deque
from collections.abc import Iterable
from itertools import count

from cbatch.engine.sequence import Sequence

_Key = tuple[int, int, int]
"""By rank: (rank, 0, 0). Arranged: (priority, 0, 0) of who has had a slot, then (priority, 1, place), then others."""


class WaitingQueue:
    """A heap of waiting sequences, from which any can be withdrawn."""

    def __init__(self, ageing_ns: int) -> None:
        self._ageing_ns = ageing_ns
        self.arranged = False
        """Whether `arrange` has set the order, which holds until the queue is empty."""
        self._heap: list[tuple[_Key, int, Sequence]] = []
        """Entries of sequences that have left since are dropped when they come to the front."""
        self._numbers = count()
        self._members: dict[Sequence, int] = {}
        """The number of the entry that counts."""
        self._in_turn: deque[Sequence] = deque()
        """In order of enqueueing; those that have left are dropped when they come to the front."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, seq: Sequence) -> bool:
        return seq in self._members

    def rank(self, seq: Sequence) -> int:
        """ns; lower comes first."""
        return seq.request.arrival_ns + seq.request.priority * self._ageing_ns

    def push(self, seq: Sequence) -> None:
        if not self._members:
            self.arranged = False
            self._heap.clear()
        heapq.heappush(self._heap, self._entry(seq, self._key(seq)))
        self._drop_gone()
        self._in_turn.append(seq)

    def _key(self, seq: Sequence) -> _Key:
        if not self.arranged:
            return self.rank(seq), 0, 0
        return seq.request.priority, 0 if seq.admitted_ns is not None else 2, 0

    def _entry(self, seq: Sequence, key: _Key) -> tuple[_Key, int, Sequence]:
        self._members[seq] = number = next(self._numbers)
        return key, number, seq

    def in_order(self) -> list[Sequence]:
        """All, the next one first."""
        return [seq for _, number, seq in sorted(self._heap) if self._members.get(seq) == number]

    def arrange(self, order: Iterable[Sequence]) -> None:
        """Let all come in this order, in which lower priorities come later; who is pushed after that, at the end of
        its priority, or, if it has lost its slot, at the beginning.
        """
        self.arranged = True
        self._heap = [self._entry(seq, (seq.request.priority, 1, place)) for place, seq in enumerate(order)]

    def first_enqueued_ns(self) -> int:
        """When the sequence that has been here longest was enqueued. Raises IndexError when empty."""
        self._drop_gone()
        return self._in_turn[0].enqueued_ns

    def _drop_gone(self) -> None:
        while self._in_turn and self._in_turn[0] not in self._members:
            self._in_turn.popleft()

    def peek(self) -> Sequence | None:
        """The sequence to admit next; None when empty."""
        while self._heap and self._members.get(self._heap[0][2]) != self._heap[0][1]:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def withdraw(self, seq: Sequence) -> None:
        """Remove `seq`, wherever it stands."""
        del self._members[seq]
