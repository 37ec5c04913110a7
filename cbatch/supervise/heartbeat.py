"""What a worker tells of itself, in memory that outlives it. Knows rows by their numbers only.

The worker writes and its parent reads, but for the end of standard input, which the parent writes.
"""

from __future__ import annotations

import mmap
from array import array
from collections.abc import Iterable
from enum import IntEnum

MOST_ROWS = 1024
"""Rows in flight that there is room for; more aren't told."""
_BEATS, _STEPS, _PHASE, _TOKENISING, _FINISHED, _STDIN_READ, _STDIN_END, _WAY_MADE = range(8)
_IN_FLIGHT = 8
_CLEARED = _IN_FLIGHT + 1 + MOST_ROWS
_WORDS = _CLEARED + 1 + MOST_ROWS
_WORD_BYTES = 8
_UNKNOWN = -1


class Phase(IntEnum):
    """What a worker is at."""

    STARTING = 0  # loading the model, reading the first rows
    RUNNING = 1  # stepping: it must show signs of life
    ENDING = 2  # putting the results into their final form


class Heartbeat:
    """Shared with processes that are forked after it was made. A word is written as a whole, and nothing is locked."""

    def __init__(self) -> None:
        self._words = memoryview(mmap.mmap(-1, _WORDS * _WORD_BYTES)).cast("q")
        self._words[_STDIN_END] = _UNKNOWN

    def reset(self) -> None:
        """For the next worker: all but what holds for each of them. While none lives."""
        kept = {word: self._words[word] for word in (_STDIN_END, _WAY_MADE)}
        self._words[:] = array("q", bytes(_WORDS * _WORD_BYTES))
        for word, value in kept.items():
            self._words[word] = value

    def beat(self) -> None:
        """Tell that the engine's loop goes on."""
        self._words[_BEATS] += 1

    def step(self, rows: Iterable[int]) -> None:
        """Tell that a step begins with these rows in slots, which stay in flight until told otherwise."""
        self.mark(rows)
        words = self._words
        words[_PHASE] = Phase.RUNNING
        words[_STEPS] += 1
        words[_BEATS] += 1

    @property
    def beats(self) -> int:
        """Changes for as long as the engine's loop goes on."""
        return self._words[_BEATS]

    @property
    def steps(self) -> int:
        """Begun so far."""
        return self._words[_STEPS]

    @property
    def phase(self) -> Phase:
        return Phase(self._words[_PHASE])

    @phase.setter
    def phase(self, phase: Phase) -> None:
        self._words[_PHASE] = phase

    @property
    def in_flight(self) -> list[int]:
        """Numbers of the rows in slots."""
        return self._words[_IN_FLIGHT + 1 : _IN_FLIGHT + 1 + self._words[_IN_FLIGHT]].tolist()

    def mark(self, rows: Iterable[int]) -> None:
        """Tell that these rows are in slots, and no others."""
        words, numbers = self._words, array("q", rows)[:MOST_ROWS]
        words[_IN_FLIGHT] = 0  # whoever dies halfway blames nobody
        words[_IN_FLIGHT + 1 : _IN_FLIGHT + 1 + len(numbers)] = numbers
        words[_IN_FLIGHT] = len(numbers)

    @property
    def tokenising(self) -> int:
        """Number of the row that is being tokenised; 0 for none."""
        return self._words[_TOKENISING]

    @tokenising.setter
    def tokenising(self, row: int) -> None:
        self._words[_TOKENISING] = row

    @property
    def finished(self) -> int:
        """Rows answered by this worker."""
        return self._words[_FINISHED]

    @finished.setter
    def finished(self, rows: int) -> None:
        self._words[_FINISHED] = rows

    def clear(self, row: int) -> None:
        """Tell that a suspect has ended without harm."""
        count = self._words[_CLEARED]
        if count < MOST_ROWS:
            self._words[_CLEARED + 1 + count] = row
            self._words[_CLEARED] = count + 1

    @property
    def cleared(self) -> list[int]:
        """Suspects that have ended without harm."""
        return self._words[_CLEARED + 1 : _CLEARED + 1 + self._words[_CLEARED]].tolist()

    @property
    def way_made(self) -> bool:
        """Whether a worker has seen to it that nothing is in the job's way: the next one finds that one's output."""
        return bool(self._words[_WAY_MADE])

    @way_made.setter
    def way_made(self, made: bool) -> None:
        self._words[_WAY_MADE] = made

    @property
    def stdin_read(self) -> int:
        """Bytes of standard input that this worker has read."""
        return self._words[_STDIN_READ]

    @stdin_read.setter
    def stdin_read(self, offset: int) -> None:
        self._words[_STDIN_READ] = offset

    @property
    def stdin_end(self) -> int | None:
        """Bytes of standard input in all, once it has ended."""
        end = self._words[_STDIN_END]
        return None if end == _UNKNOWN else end

    @stdin_end.setter
    def stdin_end(self, offset: int) -> None:
        self._words[_STDIN_END] = offset
