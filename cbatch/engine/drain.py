"""The order of what waits once nothing more will arrive: longest first, so that the last slots run empty together.

On m machines the rule (LPT) ends at most 4/3 - 1/(3m) times as late as the best order would, where an arbitrary order
may take 2 - 1/m times as long (Graham 1969, Bounds on Multiprocessing Timing Anomalies). Knows no slots and no clock.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from cbatch.engine.prefix_tree import Node
from cbatch.engine.sequence import Sequence
from cbatch.types import Request

_Place = tuple[float, int]
"""Minus the expected length, and for ties the number in the old order: the lower comes first."""


def longest_first(
    waiting: Iterable[Sequence],
    expected: Callable[[Request], float],
    prefixes: Callable[[Sequence], Iterable[Node]],
) -> list[Sequence]:
    """Of each priority the longest first, those of equal lengths as before; who has had a slot goes ahead of others.

    Those that share one of `prefixes`, which gives a sequence's from the shortest on, stay together: such a group, or a
    group within it, comes where its longest sequence would.
    """
    places: dict[Sequence, _Place] = {seq: (-expected(seq.request), i) for i, seq in enumerate(waiting)}
    groups = {seq: [(seq.request.priority, node) for node in prefixes(seq)] for seq in places}
    firsts: dict[tuple[int, Node], _Place] = {}
    for seq, place in places.items():
        for group in groups[seq]:
            firsts[group] = min(place, firsts.get(group, place))

    def turn(seq: Sequence) -> tuple[int, bool, list[_Place]]:
        within = [*(firsts[group] for group in groups[seq]), places[seq]]
        return seq.request.priority, seq.admitted_ns is None, within

    return sorted(places, key=turn)
