"""Prefixes computed once and restored for others: which to save, when to wait for one, who comes next.

A prefix is saved where the prompts that wait show that others share it, if the costs speak for it; a sequence for
which another one is computing a prefix waits for that. Where arrivals can't be foreseen, as in replay,
`keep` saves every prompt: first come computes, later ones restore. Knows no slots and calls no runner.
"""

from __future__ import annotations

from collections.abc import Callable

from cbatch.engine.holdings import Holdings
from cbatch.engine.prefix_costs import PrefixCosts
from cbatch.engine.prefix_tree import Node, PrefixTree
from cbatch.engine.runner import Capacity, Restore, StepPlan, StepResult
from cbatch.engine.sequence import Sequence
from cbatch.engine.snapshot import Snapshot
from cbatch.engine.snapshot_store import SnapshotStore

_REMEMBERED = 20_000
"""Prompts kept in mind after they have run, to tell what an unlimited cache would have found."""
_SHORTEST = 16
"""Prompts below are left alone: no prefix of theirs can be worth it."""


class PrefixCache:
    """The prefixes of one engine. `budget_bytes` 0 saves nothing but what samples of one prompt share."""

    def __init__(self, budget_bytes: int, *, keep: bool, capacity: Capacity) -> None:
        self._keep = keep
        self._cuts = capacity.cuts
        self._tree = PrefixTree()
        self._costs = PrefixCosts()
        self.store = SnapshotStore(self._tree, budget_bytes)
        self.holdings = Holdings(self._tree)
        self._remembered: dict[Node, None] = {}
        """Oldest first."""
        self._claims: dict[Sequence, list[Node]] = {}

    def add(self, seq: Sequence) -> None:
        """A sequence waits, or waits again."""
        request = seq.request
        wanted = request.fork_seeds or (self.store.budget > 0 and request.prompt.size >= _SHORTEST)
        if not wanted or seq in self._tree:
            return
        seq.known_tokens = self._tree.add(seq)

    def release(self, seq: Sequence) -> None:
        """The sequence won't save what it promised, at least not soon: nobody is to wait for it."""
        for node in self._claims.pop(seq, []):
            node.claim = None
            self._tree.prune(node)

    def drop(self, seq: Sequence) -> None:
        """The sequence has ended; harmless for one that isn't here."""
        self.release(seq)
        if seq in self._tree:
            self.holdings.hold(seq, 0)
            self._remember(self._tree.leaf(seq))
            self._tree.remove(seq)
            self.store.shrink()

    def _remember(self, leaf: Node) -> None:
        self._remembered.pop(leaf, None)
        self._remembered[leaf] = None
        leaf.remembered = True
        if len(self._remembered) > _REMEMBERED:
            oldest = next(iter(self._remembered))
            del self._remembered[oldest]
            oldest.remembered = False
            self._tree.prune(oldest)

    def enter(self, seq: Sequence) -> None:
        """The sequence has got a slot."""
        self._tree.enter(seq)

    def hold(self, seq: Sequence) -> None:
        """More or less of the sequence is computed than before; what was shifted isn't its prompt's any more."""
        kept = seq.num_computed if not seq.num_dropped else min(seq.num_computed, seq.request.keep)
        self.holdings.hold(seq, kept)

    def next_after(self, seq: Sequence, head: Sequence) -> Sequence:
        """Who enters after `seq`: the head of the queue, unless others share more with `seq` that is worth sharing."""
        group = self._group(seq)
        if group is None or (head in self._tree and group in self._tree.leaf(head).path()):
            return head
        return self._tree.oldest(group)

    def _group(self, seq: Sequence) -> Node | None:
        """The longest prefix of the sequence that queued ones share and that is worth sharing."""
        return next((node for node in reversed(self.worth_sharing(seq)) if node.queued), None)

    def worth_sharing(self, seq: Sequence) -> list[Node]:
        """The prefixes of the sequence that are saved, or worth it, the shortest first; it may have ended."""
        found, known = [], 0
        for node in self._tree.way(seq):
            kept = node.snapshot is not None or node.claim is not None
            if kept or self._costs.worth_saving(node.unstarted, node.depth - known, node.depth):
                known = node.depth
                found.append(node)
        return found

    def must_wait(self, seq: Sequence) -> bool:
        """Whether another sequence computes a prefix that this one, of which nothing is computed, had better use."""
        if seq not in self._tree or seq.request.scores_prompt:
            return False
        _, found = self._best(seq)
        for node in self._tree.leaf(seq).path():
            if node.depth <= found:
                return False
            claimed = node.claim is not None and node.claim is not seq
            if claimed and self._costs.worth_restoring(node.depth - found, node.depth):
                return True
        return False

    def begin(self, seq: Sequence) -> Restore | None:
        """What to restore before the first chunk of a sequence; it no longer waits for others."""
        if seq not in self._tree:
            return None
        self._tree.start(seq)
        return None if seq.request.scores_prompt else self._restore(seq)  # to score, every position is computed

    def _restore(self, seq: Sequence) -> Restore | None:
        node, length = self._best(seq)
        if node is None:
            return None
        assert node.snapshot is not None
        self.store.touch(node)
        for each in self._tree.leaf(seq).path():  # deeper ones first: what more prompts share is needed again later
            self.store.touch(each)
        return Restore(seq, node.snapshot, length)

    def _best(self, seq: Sequence) -> tuple[Node | None, int]:
        """The node whose snapshot serves most tokens of the sequence, and how many."""
        for node in self._tree.leaf(seq).path():
            source = self._tree.source(node) if self._cuts and node.sources else node
            if source is None or source.snapshot is None:
                continue
            if self._costs.worth_restoring(node.depth, source.snapshot.num_tokens):
                return source, node.depth
        return None, 0

    def next_save(self, seq: Sequence) -> int | None:
        """Where the sequence's prefix is to be saved next, in tokens; a chunk must end there."""
        if seq not in self._tree:
            return None
        if any(node.depth <= seq.num_computed for node in self._claims.get(seq, [])):  # it got past them by a restore
            self.release(seq)
        self._claim(seq)
        depths = [node.depth for node in self._claims.get(seq, [])]
        if depths:
            return min(depths)
        return seq.num_prompt if self._keeps_whole(seq) else None

    def _keeps_whole(self, seq: Sequence) -> bool:
        leaf = self._tree.leaf(seq)
        wanted = self._keep and self._cuts and self.store.budget > 0 and leaf.snapshot is None
        return wanted and seq.num_computed < seq.num_prompt and not leaf.sources

    def _claim(self, seq: Sequence) -> None:
        """Promise to save what is worth it on the sequence's way."""
        known = seq.num_computed
        for node in reversed(list(self._tree.leaf(seq).path())):
            if node.snapshot is not None or node.claim is not None:
                known = max(known, node.depth)
            elif node.depth > seq.num_computed and self._wanted(node, seq, known):
                node.claim = seq
                self._claims.setdefault(seq, []).append(node)
                known = node.depth

    def _wanted(self, node: Node, seq: Sequence, known: int) -> bool:
        """Whether to save a prefix of which others have `known` tokens already."""
        if seq.request.fork_seeds and any(each.request is seq.request for each in node.members):
            return True
        foreseen = self._keep and not self._cuts and len(node.children) > 1
        users = max(node.unstarted, 1) if foreseen else node.unstarted
        return self.store.budget > 0 and users > 0 and self._costs.worth_saving(users, node.depth - known, node.depth)

    def take(self, plan: StepPlan, result: StepResult, keep: Callable[[Sequence, Snapshot], None]) -> None:
        """A step has ended, and sequences have come as far; `keep` is told of every snapshot that is kept."""
        for seq, *_ in (*plan.prefills, *plan.restores, *plan.shifts):  # decodes go on past the prompt
            self.hold(seq)
        for seq in result.rewound:
            self.hold(seq)
        for restore in plan.restores:
            if result.rewound.get(restore.seq) == 0:
                self.store.evict(restore.snapshot)
        saved = 0
        for seq, length, _ in plan.saves:
            snapshot = result.saved.get(seq)
            if self._settle(seq, length, snapshot):
                assert snapshot is not None
                keep(seq, snapshot)
            saved += length if snapshot is not None else 0
        self.store.shrink()
        self._costs.learn(result, saved, sum(restore.snapshot.num_tokens for restore in plan.restores))

    def _settle(self, seq: Sequence, length: int, snapshot: Snapshot | None) -> bool:
        """Of a save: end its claim, and keep what came of it, if anything did."""
        claims = self._claims.get(seq, [])
        node = next((node for node in claims if node.depth == length), None)
        if node is not None:
            claims.remove(node)
            node.claim = None
        elif length == seq.num_prompt and seq in self._tree:
            node = self._tree.leaf(seq)
        if snapshot is None or node is None or node.snapshot is not None:
            return False
        self.store.put(node, snapshot)
        return True

    def clear(self) -> None:
        """Forget every prefix that no unfinished sequence has."""
        self.store.clear()
        for node in self._remembered:
            node.remembered = False
            self._tree.prune(node)
        self._remembered.clear()

    def check_integrity(self) -> None:
        """Assert that counts are those of the parts. For tests."""
        self._tree.check_integrity()
        self.store.check_integrity()
        assert all(node.claim is seq for seq, nodes in self._claims.items() for node in nodes)
