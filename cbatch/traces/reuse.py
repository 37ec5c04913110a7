"""Prompt tokens that a cache without bounds could take from earlier requests. Knows no engine and no KV."""

from __future__ import annotations

from cbatch.traces.trace import TraceRequest


class PrefixReuse:
    """Follows each request's prefix ids from the first through those that came before: a tree with a node a block.

    Blocks count as the same only after the same blocks, and with the same `prefix_block`.
    """

    def __init__(self) -> None:
        self._nodes: dict[tuple[int, int], int] = {}
        """(parent node, block id) -> node; the root of prefixes with blocks of n tokens is -n."""
        self._filled: list[int] = []
        """Most tokens of each node's block that a request had: fewer than a block where its prompt ended in it."""

    def add(self, request: TraceRequest) -> int:
        """Tokens of the next request's prompt that earlier ones had in the same place; 0 for prompts given as text."""
        block, left = request.prefix_block, request.prompt_tokens
        if block is None or left is None:
            return 0
        reused, whole, parent = 0, True, -block
        for block_id in request.prefix_ids:
            tokens = min(block, left)
            left -= tokens
            node = self._nodes.setdefault((parent, block_id), len(self._filled))
            if node == len(self._filled):
                self._filled.append(0)
            shared = min(tokens, self._filled[node]) if whole else 0
            reused, whole = reused + shared, shared == block
            self._filled[node] = max(self._filled[node], tokens)
            parent = node
        return reused
