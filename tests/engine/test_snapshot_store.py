"""Which snapshots go first."""

from __future__ import annotations

import numpy as np

from cbatch.engine.fake import FakeSnapshot
from cbatch.engine.prefix_tree import Node, PrefixTree
from cbatch.engine.sequence import Sequence
from cbatch.engine.snapshot_store import SnapshotStore
from cbatch.sampling import SamplingParams
from cbatch.types import Request


class Shelf:
    """A store of three snapshots of ten bytes, each of a prompt that somebody waits with; it has no budget yet."""

    def __init__(self, samples: int = 1) -> None:
        self.tree = PrefixTree()
        self.store = SnapshotStore(self.tree, 1 << 30)
        self.seqs = [Sequence(_request(token, samples), 0) for token in (1, 2, 3)]
        for seq in self.seqs:
            self.tree.add(seq)
        self.nodes: list[Node] = [self.tree.leaf(seq) for seq in self.seqs]
        for node in self.nodes:
            self.store.put(node, FakeSnapshot(np.zeros(10, np.int32)))

    def left(self, budget: int) -> list[int]:
        """Which of the three stay under a budget."""
        self.store.budget = budget
        self.store.shrink()
        self.store.check_integrity()
        return [i for i, node in enumerate(self.nodes) if node.snapshot is not None]


def _request(token: int, samples: int) -> Request:
    seeds = tuple(range(1, samples))
    return Request(str(token), np.full(11, token, np.int32), SamplingParams(n=samples), fork_seeds=seeds)


def test_the_least_recently_used_goes_first() -> None:
    shelf = Shelf()
    shelf.store.touch(shelf.nodes[0])
    assert shelf.left(20) == [0, 2]
    assert shelf.left(10) == [0]
    assert shelf.left(9) == []


def test_what_nobody_waits_for_goes_before_that() -> None:
    shelf = Shelf()
    shelf.tree.start(shelf.seqs[2])
    assert shelf.left(29) == [0, 1]


def test_what_samples_wait_for_stays() -> None:
    shelf = Shelf(samples=2)
    assert shelf.left(0) == [0, 1, 2]
    shelf.tree.start(shelf.seqs[1])
    assert shelf.left(0) == [0, 2]
