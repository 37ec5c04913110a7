"""In which slot each sequence was when, as one hears it step by step. Knows no requests and no files.

A sequence has a stretch for each time in a slot: it may lose its slot and get one again, or move to another.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass


@dataclass(slots=True)
class _Stretch:
    slot: int
    start_ns: int
    end_ns: int | None = None
    """None while it lasts."""


class Stretches:
    """Of the sequences that aren't forgotten yet."""

    def __init__(self) -> None:
        self._of: dict[str, list[_Stretch]] = {}

    def __contains__(self, sequence: str) -> bool:
        return sequence in self._of

    def step(self, start_ns: int, slots: Mapping[str, int]) -> None:
        """A step began; `slots` has the slot of every sequence that had one in it."""
        for sequence, stretches in self._of.items():
            if stretches[-1].end_ns is None and slots.get(sequence) != stretches[-1].slot:
                stretches[-1].end_ns = start_ns
        for sequence, slot in slots.items():
            stretches = self._of.setdefault(sequence, [])
            if not stretches or stretches[-1].end_ns is not None:
                stretches.append(_Stretch(slot, start_ns))

    def until(self, sequence: str, end_ns: int) -> Iterator[tuple[int, int, int]]:
        """(slot, start, end) of each, in order; the last one ends by `end_ns`. None of a sequence without a slot."""
        for stretch in self._of.get(sequence, []):
            yield stretch.slot, stretch.start_ns, end_ns if stretch.end_ns is None else min(stretch.end_ns, end_ns)

    def forget(self, sequence: str) -> None:
        """It has ended; harmless for one that isn't known."""
        self._of.pop(sequence, None)
