"""How many prompt tokens running sequences hold in common, kept up to date as they come and go. Knows no cells."""

from __future__ import annotations

from cbatch.engine.prefix_tree import Node, PrefixTree
from cbatch.engine.sequence import Sequence


class Holdings:
    """Who has computed how much of the prefixes of a tree. What a sequence holds is always a beginning of its prompt,
    so what others hold of it is one too: the longest that any of them has in common with it.
    """

    def __init__(self, tree: PrefixTree) -> None:
        self.shared = 0
        """Tokens held, less those that would do if each was held once."""
        self._tree = tree

    def hold(self, seq: Sequence, tokens: int) -> None:
        """The sequence holds its first `tokens` tokens now; harmless for one that isn't in the tree."""
        if seq not in self._tree:
            return
        leaf = self._tree.leaf(seq)
        before, now = leaf.holders.get(seq, 0), min(tokens, leaf.depth)
        if now == before:
            return
        for node in leaf.path():
            node.holders.pop(seq, None)
        others = _held(leaf)
        self.shared += min(now, others) - min(before, others)
        if now > 0:
            for node in leaf.path():
                node.holders[seq] = now


def _held(leaf: Node) -> int:
    """How many first tokens of a prefix anybody holds."""
    for node in leaf.path():
        most = max(node.holders.values(), default=0)
        if most > node.depth - node.tokens.size:
            return min(most, node.depth)
    return 0
