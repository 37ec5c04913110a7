"""The queue of sequences without a slot: by rank, then order of enqueueing.

A sequence's rank is its arrival plus its priority times the ageing: of equal priorities the earlier arrival is first, a
higher priority (a lower number) goes ahead of all that arrived up to `ageing_ns` before for each step of priority, and
none can be overtaken for ever. Ranks don't change with time, so the order of two that wait never does either.
"""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from cbatch.engine.sequence import Sequence


class WaitingQueue:
    """A heap of waiting sequences, from which any can be withdrawn."""

    def __init__(self, ageing_ns: int) -> None:
        self._ageing_ns = ageing_ns
        self._heap: list[tuple[int, int, Sequence]] = []
        self._order = count()
        self._members: set[Sequence] = set()
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
        heapq.heappush(self._heap, (self.rank(seq), next(self._order), seq))
        self._members.add(seq)
        self._drop_gone()
        self._in_turn.append(seq)

    def first_enqueued_ns(self) -> int:
        """When the sequence that has been here longest was enqueued. Raises IndexError when empty."""
        self._drop_gone()
        return self._in_turn[0].enqueued_ns

    def _drop_gone(self) -> None:
        while self._in_turn and self._in_turn[0] not in self._members:
            self._in_turn.popleft()

    def peek(self) -> Sequence | None:
        """The sequence to admit next; None when empty."""
        while self._heap and self._heap[0][2] not in self._members:
            heapq.heappop(self._heap)
        return self._heap[0][2] if self._heap else None

    def pop(self) -> Sequence:
        """Remove and return what `peek` shows. Raises IndexError when empty."""
        seq = self.peek()
        if seq is None:
            raise IndexError("no sequence waits")
        self._members.remove(seq)
        return seq

    def withdraw(self, seq: Sequence) -> None:
        """Remove `seq`, wherever it stands."""
        self._members.remove(seq)

    def drain(self) -> list[Sequence]:
        """Remove and return all, in order."""
        return [self.pop() for _ in range(len(self))]
