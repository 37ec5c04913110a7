"""Named random streams from one seed, so that what one of them draws never moves another. Knows nothing of traces."""

from __future__ import annotations

import hashlib

import numpy as np

from cbatch.errors import UsageError


def stream(seed: int, name: str) -> np.random.Generator:
    """The stream `name` of `seed` (>= 0; 0 is a seed as any other), from its beginning.

    Streams with different names or seeds are independent: the name's SHA-256 is the spawn key of a numpy
    `SeedSequence`. Raises `UsageError` for a negative seed.
    """
    if seed < 0:
        raise UsageError(f"--seed is {seed}: give 0 or more")
    digest = hashlib.sha256(name.encode()).digest()
    key = tuple(int.from_bytes(digest[i : i + 4], "little") for i in range(0, 16, 4))
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence(seed, spawn_key=key)))
