"""The jobs that cbatch and its peers are given: the same token ids for all of them. Knows no model.

U  64 prompts of 128 tokens, 64 output tokens each.
R  96 prompts of 32 to 256 tokens, outputs exponential with mean 48, in 8 to 192: ragged.
P  64 prompts of the same 512 tokens and 32 of their own, 32 output tokens each.

Tokens are drawn evenly from the words of a vocabulary, so that a prompt can be given as text too.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int32]
"""Token ids."""


@dataclass(frozen=True, slots=True)
class BenchRow:
    """One request; greedy, and end tokens don't end it."""

    prompt: tuple[int, ...]
    output: int
    """Tokens to generate."""


@dataclass(frozen=True, slots=True)
class BenchJob:
    """Requests to answer, in order."""

    name: str
    rows: tuple[BenchRow, ...]

    @property
    def output_tokens(self) -> int:
        return sum(row.output for row in self.rows)

    @property
    def cells(self) -> int:
        """KV cells of the longest request."""
        return max(len(row.prompt) + row.output for row in self.rows)

    def first(self, count: int, most_output: int | None = None) -> BenchJob:
        """Its first rows, with no more output tokens each."""
        rows = (row if most_output is None else replace(row, output=min(row.output, most_output)) for row in self.rows)
        return replace(self, rows=tuple(rows)[:count])


def _row(prompt: npt.NDArray[Any], output: float) -> BenchRow:
    return BenchRow(tuple(prompt.tolist()), int(output))


def job_u(words: Words) -> BenchJob:
    rng = np.random.default_rng(0)
    return BenchJob("U", tuple(_row(rng.choice(words, 128), 64) for _ in range(64)))


def job_r(words: Words) -> BenchJob:
    rng = np.random.default_rng(1)
    rows = []
    for _ in range(96):
        prompt = rng.choice(words, rng.integers(32, 257))
        rows.append(_row(prompt, np.clip(rng.exponential(48), 8, 192)))
    return BenchJob("R", tuple(rows))


def job_p(words: Words) -> BenchJob:
    rng = np.random.default_rng(2)
    head = rng.choice(words, 512)
    return BenchJob("P", tuple(_row(np.concatenate([head, rng.choice(words, 32)]), 32) for _ in range(64)))


JOBS: dict[str, Callable[[Words], BenchJob]] = {"U": job_u, "R": job_r, "P": job_p}


def make_jobs(names: Sequence[str], words: Words, rows: int | None = None) -> list[BenchJob]:
    """At most `rows` rows of each."""
    jobs = [JOBS[name](words) for name in names]
    return jobs if rows is None else [job.first(rows) for job in jobs]
