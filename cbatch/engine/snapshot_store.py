"""The snapshots of prefixes, under a budget of bytes. Knows which are wanted, and not why they were taken.

Those that no unstarted sequence wants go first, and of them the least recently used. Snapshots that samples of one
prompt wait for stay whatever the budget.
"""

from __future__ import annotations

from collections.abc import Callable
from itertools import chain

from cbatch.engine.prefix_tree import Node, PrefixTree
from cbatch.engine.snapshot import Snapshot


class SnapshotStore:
    """Puts snapshots to the nodes of a tree, and takes them away again."""

    def __init__(self, tree: PrefixTree, budget_bytes: int) -> None:
        self.budget = budget_bytes
        self.bytes = 0
        """Of all snapshots."""
        self.let_go: Callable[[Snapshot], None] = lambda _: None
        """Told of every snapshot that isn't kept any longer."""
        self._tree = tree
        self._recent: dict[Node, None] = {}
        """Nodes with snapshots, least recently used first."""

    def put(self, node: Node, snapshot: Snapshot) -> None:
        self._tree.put(node, snapshot)
        self._recent[node] = None
        self.bytes += snapshot.num_bytes

    def touch(self, node: Node) -> None:
        """The node's snapshot, if it has one, was used."""
        if node in self._recent:
            del self._recent[node]
            self._recent[node] = None

    def shrink(self) -> None:
        """Keep to the budget."""
        while self.bytes > self.budget:
            unwanted = (node for node in self._recent if not node.unstarted)
            node = next(chain(unwanted, (node for node in self._recent if not _samples_wait(node))), None)
            if node is None:
                return
            self._evict(node)

    def evict_shared(self, *, wanted: bool) -> bool:
        """Let the least recently used snapshot of the pool's own cells go; False if there is none.

        `wanted`: one that unstarted sequences would use may go too.
        """
        shared = (node for node in self._recent if node.snapshot is not None and node.snapshot.shared)
        node = next((node for node in shared if wanted or not node.unstarted), None)
        if node is not None:
            self._evict(node)
        return node is not None

    def evict(self, snapshot: Snapshot) -> None:
        """Let a snapshot go; harmless for one that has gone."""
        node = next((node for node in self._recent if node.snapshot is snapshot), None)
        if node is not None:
            self._evict(node)

    def clear(self) -> None:
        for node in list(self._recent):
            self._evict(node)

    def _evict(self, node: Node) -> None:
        assert node.snapshot is not None
        self.bytes -= node.snapshot.num_bytes
        self.let_go(node.snapshot)
        del self._recent[node]
        self._tree.put(node, None)
        self._tree.prune(node)

    def check_integrity(self) -> None:
        """Assert that bytes are those of the parts, and within the budget. For tests."""
        assert self.bytes == sum(node.snapshot.num_bytes for node in self._recent if node.snapshot is not None)
        assert self.bytes <= self.budget or any(_samples_wait(node) for node in self._recent)


def _samples_wait(node: Node) -> bool:
    return any(seq.request.fork_seeds for seq in node.members)
