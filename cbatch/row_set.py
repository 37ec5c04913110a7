"""Which rows of a job are meant: a set of row numbers, a bit each. Knows nothing of what the rows hold."""

from __future__ import annotations

from collections.abc import Iterable, Iterator


class RowSet:
    """A set of whole numbers from 1 on, in memory of the highest one / 8 bytes."""

    def __init__(self, numbers: Iterable[int] = ()) -> None:
        self._bits = bytearray()
        self._count = 0
        for number in numbers:
            self.add(number)

    def add(self, number: int) -> bool:
        """Whether it wasn't in the set before."""
        at, mask = number >> 3, 1 << (number & 7)
        if at >= len(self._bits):
            self._bits.extend(bytes(at + 1 - len(self._bits)))
        new = not self._bits[at] & mask
        self._bits[at] |= mask
        self._count += new
        return new

    def discard(self, number: int) -> None:
        """Take it out, if it is in."""
        if number in self:
            self._bits[number >> 3] &= ~(1 << (number & 7))
            self._count -= 1

    def __contains__(self, number: int) -> bool:
        at = number >> 3
        return at < len(self._bits) and bool(self._bits[at] & 1 << (number & 7))

    def __len__(self) -> int:
        return self._count

    def __iter__(self) -> Iterator[int]:
        """Ascending."""
        for at, bits in enumerate(self._bits):
            if bits:
                yield from (at * 8 + bit for bit in range(8) if bits & 1 << bit)

    def holds_all(self, start: int, stop: int) -> bool:
        """Whether every number from `start` up to, not with, `stop` is in the set."""
        first, end = -(-start // 8), stop // 8
        if first >= end:
            return all(number in self for number in range(start, stop))
        whole = end <= len(self._bits) and self._bits.count(0xFF, first, end) == end - first
        edges = (*range(start, first * 8), *range(end * 8, stop))
        return whole and all(number in self for number in edges)
