"""What a runner gives for the KV of a sequence, to be put back later: the one primitive of everything about KV."""

from __future__ import annotations

from typing import Protocol


class Snapshot(Protocol):
    """A copy of a sequence's KV, outside its slot. It's freed when nothing refers to it."""

    @property
    def num_tokens(self) -> int: ...

    @property
    def num_bytes(self) -> int:
        """Of memory that it takes."""
        ...

    @property
    def shared(self) -> bool:
        """Whether it consists of the pool's own cells, which sequences restored from it share, instead of a copy."""
        ...
