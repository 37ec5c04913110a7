"""Which of the numbered records become rows: where, then sample, offset, limit, and what is done. Reads nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import numpy as np
import numpy.typing as npt

from cbatch.inputs.options import InputOptions
from cbatch.inputs.records import Chunk
from cbatch.inputs.where import Where
from cbatch.row_set import RowSet

Numbers = npt.NDArray[np.int64]

_BLOCK = 1 << 20
"""Row numbers to draw for at once."""


class Selection:
    """Chosen in order, chunk by chunk; offset and limit count rows whether they are done or not."""

    def __init__(self, options: InputOptions, done: RowSet) -> None:
        self.where = None if options.where is None else Where(options.where)
        self._sample = Sample(options.sample, options.seed)
        self._first = options.offset
        self._stop = None if options.limit is None else options.offset + options.limit
        self._done = done
        self._seen = 0
        """Rows that where and sample let through."""

    @property
    def ended(self) -> bool:
        """Whether the limit is reached."""
        return self._stop is not None and self._seen >= self._stop

    @property
    def counts_first(self) -> bool:
        """Whether `count` must see all records before the first is picked."""
        return self._sample.is_count

    def count(self, blocks: Iterable[Numbers]) -> None:
        """Be told the numbers of all records that `where` lets through, ascending."""
        self._sample.count(blocks)

    def matching(self, chunk: Chunk, start: int) -> Numbers:
        """Numbers of the records that `where` lets through, the first of the chunk being `start`."""
        if self.where is None:
            return np.arange(start, start + len(chunk))
        return start + np.asarray(chunk.matches(self.where), np.int64)

    def pick(self, chunk: Chunk, start: int) -> list[int]:
        """Numbers of the records that become rows, ascending."""
        numbers = self._sample.of(self.matching(chunk, start))
        first, stop = self._first - self._seen, None if self._stop is None else self._stop - self._seen
        self._seen += len(numbers)
        chosen = numbers[max(0, first) : stop]
        if self._done.holds_all(start, start + len(chunk)):
            return []
        return [number for number in chosen.tolist() if number not in self._done]

    def wants(self, start: int, count: int) -> bool:
        """Whether it has to look into the next `count` records; False only where `pick` would find nothing."""
        if self.where is not None and (self._first or self._stop is not None):
            return True
        all_skipped = self.where is None and self._sample.is_all and start + count <= self._first + 1
        return not all_skipped and not self._done.holds_all(start, start + count)

    def num_rows(self, total: int) -> int | None:
        """How many rows it will pick of so many records; None where that takes looking at them."""
        if self.where is not None:
            return None
        sampled = self._sample.num_of(total)
        chosen = sampled if self._stop is None else min(sampled, self._stop)
        return max(0, chosen - self._first - len(self._done))


class Sample:
    """A share of the rows, or a number of them, chosen by their numbers and the seed alone.

    Each number has a draw, and the lowest are chosen.
    """

    def __init__(self, size: float | None, seed: int) -> None:
        """`size` is as in `InputOptions.sample`."""
        self._size = size
        self._start = np.random.SeedSequence(seed % 2**64).generate_state(1, np.uint64)[0]
        self._highest: int | None = None if size is None or size >= 1 else int(size * 2**64) - 1
        """Of the draws that are chosen; None is all of them."""

    @property
    def is_count(self) -> bool:
        return self._size is not None and self._size >= 1

    @property
    def is_all(self) -> bool:
        return self._size is None

    def count(self, blocks: Iterable[Numbers]) -> None:
        """Be told all numbers that there are, where it is a number of rows."""
        assert self._size is not None
        size = int(self._size)
        lowest = np.empty(0, np.uint64)
        for numbers in blocks:
            lowest = np.sort(np.concatenate((lowest, self._draws(numbers))))[:size]
        self._highest = int(lowest[-1]) if len(lowest) == size else None

    def of(self, numbers: Numbers) -> Numbers:
        """Those that are chosen."""
        if self._highest is None:
            return numbers
        chosen: Numbers = numbers[self._draws(numbers) <= np.uint64(max(0, self._highest))]
        return chosen

    def num_of(self, total: int) -> int:
        """How many of the numbers from 1 to `total` are chosen."""
        if self._size is None:
            return total
        if self.is_count:
            return min(int(self._size), total)
        return sum(len(self.of(numbers)) for numbers in row_numbers(total))

    def _draws(self, numbers: Numbers) -> npt.NDArray[np.uint64]:
        """64 random bits for each number, no two the same: the finalizer of SplitMix64 (Steele et al., 2014)."""
        z = numbers.astype(np.uint64) * np.uint64(0x9E3779B97F4A7C15) + self._start
        z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
        z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
        draws: npt.NDArray[np.uint64] = z ^ (z >> np.uint64(31))
        return draws


def row_numbers(total: int) -> Iterator[Numbers]:
    """The numbers from 1 to `total`, in blocks."""
    for start in range(1, total + 1, _BLOCK):
        yield np.arange(start, min(start + _BLOCK, total + 1))
