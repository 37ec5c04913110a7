"""Who gives way: the lowest priority first, and of equals the one let in last. Knows no slots and no KV."""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cbatch.engine.sequence import Sequence

Rank = Callable[[Sequence], int]
"""Orders waiting sequences: by priority and time, see `WaitingQueue`."""


def victims(running: Iterable[Sequence], candidate: Sequence, rank: Rank) -> list[Sequence]:
    """Those that may give way to a waiting sequence, in the order in which they do.

    `running` is in order of admission. Only a higher priority displaces, and nobody who by now would come before the
    candidate in the queue: who has waited long enough is safe.
    """
    lower = [
        seq for seq in running if seq.request.priority > candidate.request.priority and rank(seq) > rank(candidate)
    ]
    return by_sacrifice(lower)


def by_sacrifice(running: Iterable[Sequence]) -> list[Sequence]:
    """All of them, those first that are given up first; `running` is in order of admission."""
    latest_first = list(running)[::-1]
    return sorted(latest_first, key=lambda seq: -seq.request.priority)  # stable
