"""What is run to see costs: prompts, what follows a prefix, and decodes at one context length. Knows no model."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from cbatch.sampling import SamplingParams
from cbatch.types import Request


@dataclass(frozen=True, slots=True)
class Prompts:
    """Prompts of these lengths, all at once, with one output token each."""

    lengths: tuple[int, ...]

    @property
    def cells(self) -> int:
        """KV cells of the longest."""
        return max(self.lengths)

    @property
    def slots(self) -> int:
        return len(self.lengths)

    def requests(self, vocabulary: int) -> list[Request]:
        sampling = SamplingParams(max_tokens=1, ignore_eos=True)
        rng = np.random.default_rng(0)
        return [Request(f"p{i}", _tokens(rng, n, vocabulary), sampling) for i, n in enumerate(self.lengths)]


@dataclass(frozen=True, slots=True)
class Tails:
    """`running` prompts of one `prefix`, computed once and restored for the others, and `length` tokens of their own.

    Prompts alone tell little of chunks that follow a long context. Then all decode for so many steps.
    """

    running: int
    prefix: int
    length: int
    steps: int

    @property
    def cells(self) -> int:
        """KV cells of each."""
        return self.prefix + self.length + self.steps

    @property
    def slots(self) -> int:
        return self.running

    def requests(self, vocabulary: int) -> list[Request]:
        rng = np.random.default_rng(4)
        prefix = _tokens(rng, self.prefix, vocabulary)
        tails = [_tokens(rng, self.length, vocabulary) for _ in range(self.running)]
        sampling = SamplingParams(max_tokens=self.steps + 1, ignore_eos=True)
        return [Request(f"t{i}", np.concatenate([prefix, tail]), sampling) for i, tail in enumerate(tails)]


@dataclass(frozen=True, slots=True)
class Decodes:
    """`running` sequences that have `context` tokens, for so many steps.

    They are samples of one prompt, which is computed once and restored for the others: filling a context otherwise
    takes longer than what is to be measured.
    """

    running: int
    context: int
    steps: int

    @property
    def cells(self) -> int:
        """KV cells of each."""
        return self.context + self.steps

    @property
    def slots(self) -> int:
        return self.running

    def requests(self, vocabulary: int) -> list[Request]:
        prompt = _tokens(np.random.default_rng(1), self.context, vocabulary)
        sampling = SamplingParams(max_tokens=self.steps + 1, ignore_eos=True, n=self.running)
        return [Request("d", prompt, sampling, fork_seeds=tuple(range(1, self.running)))]


Load = Prompts | Tails | Decodes


def slots_of(loads: Iterable[Load]) -> int:
    return max(load.slots for load in loads)


def cells_of(loads: Iterable[Load]) -> int:
    return max(load.cells for load in loads)


def _tokens(rng: np.random.Generator, count: int, vocabulary: int) -> np.ndarray[tuple[int, ...], np.dtype[np.int32]]:
    return rng.integers(0, vocabulary, count).astype(np.int32)
