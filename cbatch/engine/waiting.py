"""The queue of sequences without a slot: priority first, then arrival, then order of enqueueing."""

from __future__ import annotations

import heapq
from collections import deque
from itertools import count

from cbatch.engine.sequence import Sequence


class WaitingQueue:
    """A heap of waiting sequences, from which any can be withdrawn."""

    def __init__(self) -> None:
        self._heap: list[tuple[int, int, int, Sequence]] = []
        self._order = count()
        self._members: set[Sequence] = set()
        self._in_turn: deque[Sequence] = deque()
        """In order of enqueueing; those that have left are dropped when they come to the front."""

    def __len__(self) -> int:
        return len(self._members)

    def __contains__(self, seq: Sequence) -> bool:
        return seq in self._members

    def push(self, seq: Sequence) -> None:
        request = seq.request
        heapq.heappush(self._heap, (request.priority, request.arrival_ns, next(self._order), seq))
        self._members.add(seq)
        self._in_turn.append(seq)

    def first_enqueued_ns(self) -> int:
        """When the sequence that has been here longest was enqueued. Raises IndexError when empty."""
        while self._in_turn[0] not in self._members:
            self._in_turn.popleft()
        return self._in_turn[0].enqueued_ns

    def peek(self) -> Sequence | None:
        """The sequence to admit next; None when empty."""
        while self._heap and self._heap[0][3] not in self._members:
            heapq.heappop(self._heap)
        return self._heap[0][3] if self._heap else None

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
