"""Whose turn it is to get a slot. Knows waiting sequences, their prefixes and lengths; nothing of slots and cells.

While more may arrive, the first in the queue; or, of the same priority, one that shares a prefix with the last that got
in, so that such groups run one after the other. Once nothing more will arrive the queue itself can be put in order, by
expected lengths (`drain`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cbatch.config import SchedulerConfig
from cbatch.engine.drain import longest_first
from cbatch.engine.lengths import OutputLengths
from cbatch.engine.prefix_cache import PrefixCache
from cbatch.engine.sequence import Sequence
from cbatch.engine.waiting import WaitingQueue

_MOST_OVERTAKEN = 10_000
"""Sequences that may go ahead of one because they share prefixes with others."""


class Turns:
    """Over the queue of one engine."""

    def __init__(self, config: SchedulerConfig, waiting: WaitingQueue, prefixes: PrefixCache) -> None:
        self._waiting = waiting
        self._prefixes = prefixes
        self._groups = config.group_prefixes
        self._longest_first = config.drain == "longest" and config.batching == "continuous"
        self._lengths = OutputLengths()
        self._arranged_again_at = 0
        """Once so many lengths are learned."""
        self._overtakes = 0
        self._last: Sequence | None = None
        """The one admitted last."""

    def next(self, has_room: Callable[[Sequence], bool]) -> Sequence | None:
        """Who enters next; None if nobody waits. `has_room` says whom there are cells for."""
        if self._waiting.arranged:
            if self._lengths.learned >= self._arranged_again_at:
                self._arrange()
            return self._waiting.peek()
        head = self._waiting.peek()
        if head is None or self._last is None or not self._groups:
            return head
        near = self._prefixes.next_after(self._last, head) if self._overtakes < _MOST_OVERTAKEN else head
        if near is head or near.request.priority != head.request.priority or not has_room(near):
            self._overtakes = 0
            return head
        self._overtakes += 1
        return near

    def entered(self, seq: Sequence) -> None:
        """The sequence has got a slot."""
        self._last = seq

    def ended(self, seqs: Iterable[Sequence]) -> None:
        """These have finished, well or not."""
        if self._longest_first:
            for seq in seqs:
                self._lengths.learn(seq)

    @property
    def minds_end(self) -> bool:
        """Whether `end` would change anything."""
        return self._longest_first and not self._waiting.arranged and len(self._waiting) > 0

    def end(self) -> None:
        """Nothing more will arrive."""
        if self.minds_end:
            self._arrange()

    def _arrange(self) -> None:
        """Anew when a quarter more lengths are known: what they say changes less and less."""
        self._arranged_again_at = self._lengths.learned * 5 // 4 + 1
        prefixes = self._prefixes.worth_sharing if self._groups else _none
        self._waiting.arrange(longest_first(self._waiting.in_order(), self._lengths.expected, prefixes))


def _none(_: Sequence) -> tuple[()]:
    return ()
