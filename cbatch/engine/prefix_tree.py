"""A radix tree over prompts: who shares which first tokens with whom. Knows no KV, no slots and no costs.

Each sequence stands at the node of its shareable prefix, its prompt without the last token: that one is always
computed, since its logits are what the first output token is drawn from. (Radix trees over token ids as an index of
KV: RadixAttention, Zheng et al. 2024, SGLang.)
"""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from cbatch.engine.sequence import Sequence
from cbatch.engine.snapshot import Snapshot
from cbatch.types import Tokens


class Node:
    """A prefix, `depth` tokens long, that ends where prompts part or end."""

    __slots__ = (
        "children",
        "claim",
        "depth",
        "holders",
        "hopeful",
        "members",
        "parent",
        "queued",
        "remembered",
        "snapshot",
        "sources",
        "standing",
        "tokens",
        "unstarted",
    )

    def __init__(self, parent: Node | None, tokens: Tokens) -> None:
        self.parent = parent
        self.tokens = tokens
        """The last of its tokens, those after its parent's."""
        self.depth: int = (0 if parent is None else parent.depth) + int(tokens.size)
        self.children: dict[int, Node] = {}
        """By first token, oldest first."""
        self.hopeful: dict[int, Node] = {}
        """Those of the children that have queued members."""
        self.members: dict[Sequence, bool] = {}
        """Unstarted sequences that end here, oldest first, and whether they are queued: without a slot."""
        self.holders: dict[Sequence, int] = {}
        """Running sequences here and below of which anything is computed, and how many tokens (`Holdings`)."""
        self.standing = 0
        """Sequences that end here, started ones too."""
        self.unstarted = 0
        """Members here and below."""
        self.queued = 0
        """Those of them without a slot."""
        self.snapshot: Snapshot | None = None
        self.claim: Sequence | None = None
        """A running sequence that will save this prefix."""
        self.sources = 0
        """Snapshots here and below."""
        self.remembered = False
        """Whether it is kept though nothing refers to it, to recognise a prompt like it."""

    def path(self) -> Iterator[Node]:
        """From here up to, and without, the root."""
        node: Node = self
        while node.parent is not None:
            yield node
            node = node.parent

    @property
    def idle(self) -> bool:
        kept = self.remembered or self.children or self.standing
        return not kept and self.snapshot is None and self.claim is None


class PrefixTree:
    """The prompts that wait or were seen lately."""

    def __init__(self) -> None:
        self.root = Node(None, np.empty(0, np.int32))
        self._leaves: dict[Sequence, Node] = {}

    def __contains__(self, seq: Sequence) -> bool:
        return seq in self._leaves

    def add(self, seq: Sequence) -> int:
        """Take in an unstarted sequence; returns how many of its first tokens the tree already knew."""
        tokens = seq.request.prompt[:-1]
        node, known = self._descend(tokens)
        if known < tokens.size:
            leaf = Node(node, tokens[known:])
            node.children[int(tokens[known])] = leaf
            node = leaf
        node.members[seq] = True
        self._count(node, unstarted=1, queued=1)
        self._leaves[seq] = node
        node.standing += 1
        return known

    def _descend(self, tokens: Tokens) -> tuple[Node, int]:
        """The node of the longest known prefix of `tokens`, made if it ends inside an edge; and its depth."""
        node, at = self.root, 0
        while at < tokens.size:
            child = node.children.get(int(tokens[at]))
            if child is None:
                break
            same = _common(child.tokens, tokens[at:])
            at += same
            node = child if same == child.tokens.size else self._split(child, same)
            if node is not child:
                break
        return node, at

    def _split(self, node: Node, at: int) -> Node:
        """A new node between `node` and its parent, after `at` of its tokens."""
        parent = node.parent
        assert parent is not None
        upper = Node(parent, node.tokens[:at])
        upper.unstarted, upper.queued, upper.sources = node.unstarted, node.queued, node.sources
        upper.holders = dict(node.holders)
        first, second = int(node.tokens[0]), int(node.tokens[at])
        parent.children[first] = upper
        upper.children[second] = node
        if node.queued:
            parent.hopeful[first] = upper
            upper.hopeful[second] = node
        node.parent, node.tokens = upper, node.tokens[at:]
        return upper

    def leaf(self, seq: Sequence) -> Node:
        return self._leaves[seq]

    def enter(self, seq: Sequence) -> None:
        """The sequence has a slot, and may wait there; harmless for one that isn't here."""
        node = self._leaves.get(seq)
        if node is not None and node.members.get(seq):
            node.members[seq] = False
            self._count(node, queued=-1)

    def start(self, seq: Sequence) -> None:
        """The sequence no longer waits for a prefix."""
        self.enter(seq)
        node = self._leaves[seq]
        if seq in node.members:
            del node.members[seq]
            self._count(node, unstarted=-1)

    def remove(self, seq: Sequence) -> None:
        """Forget the sequence, and what only it kept; harmless for one that isn't here."""
        node = self._leaves.get(seq)
        if node is not None:
            self.start(seq)
            del self._leaves[seq]
            node.standing -= 1
            self.prune(node)

    def put(self, node: Node, snapshot: Snapshot | None) -> None:
        """Give a node a snapshot, or take it away."""
        change = (snapshot is not None) - (node.snapshot is not None)
        node.snapshot = snapshot
        for each in node.path():
            each.sources += change

    def prune(self, node: Node) -> None:
        """Remove the node if nothing refers to it, and its parents alike."""
        while node.idle and node.parent is not None:
            parent = node.parent
            del parent.children[int(node.tokens[0])]
            node.parent = None
            node = parent

    def source(self, node: Node) -> Node | None:
        """A node at or below `node` that has a snapshot."""
        while node.snapshot is None:
            below = next((child for child in reversed(node.children.values()) if child.sources), None)
            if below is None:
                return None
            node = below
        return node

    def way(self, seq: Sequence) -> list[Node]:
        """The nodes of a sequence's prefixes, the shortest first; it may have been removed."""
        node = self._leaves.get(seq)
        return list((self._find(seq.request.prompt[:-1]) if node is None else node).path())[::-1]

    def oldest(self, node: Node) -> Sequence:
        """A queued sequence at or below a node that has some: its own ones first, then those of the oldest child."""
        while True:
            here = next((member for member, queued in node.members.items() if queued), None)
            if here is not None:
                return here
            node = next(iter(node.hopeful.values()))

    def _find(self, tokens: Tokens) -> Node:
        """The deepest node on the way of `tokens`; changes nothing."""
        node, at = self.root, 0
        while at < tokens.size:
            child = node.children.get(int(tokens[at]))
            if child is None or _common(child.tokens, tokens[at:]) < child.tokens.size:
                break
            at += int(child.tokens.size)
            node = child
        return node

    def _count(self, node: Node, *, unstarted: int = 0, queued: int = 0) -> None:
        """Change the counts from `node` up to the root."""
        self.root.unstarted += unstarted
        self.root.queued += queued
        for each in node.path():
            each.unstarted += unstarted
            each.queued += queued
            assert each.parent is not None
            if each.queued:
                each.parent.hopeful.setdefault(int(each.tokens[0]), each)
            else:
                each.parent.hopeful.pop(int(each.tokens[0]), None)

    def check_integrity(self) -> None:
        """Assert that the counts are those of the members. For tests."""
        assert self.root.unstarted == sum(seq in node.members for seq, node in self._leaves.items())
        _check(self.root)


def _common(a: Tokens, b: Tokens) -> int:
    """How many first tokens are the same."""
    length = min(a.size, b.size)
    differ = a[:length] != b[:length]
    first = int(differ.argmax()) if length else 0
    return first if length and differ[first] else length


def _check(node: Node) -> None:
    assert node.unstarted == len(node.members) + sum(child.unstarted for child in node.children.values())
    assert node.parent is None or not node.idle
    queued = sum(node.members.values()) + sum(child.queued for child in node.children.values())
    assert node.queued == queued
    below = sum(child.sources for child in node.children.values())
    assert node.parent is None or node.sources == (node.snapshot is not None) + below
    for first, child in node.children.items():
        assert child.parent is node
        assert int(child.tokens[0]) == first
        assert child.depth == node.depth + child.tokens.size
        assert (node.hopeful.get(first) is child) == (child.queued > 0)
        _check(child)
