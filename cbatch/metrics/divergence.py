"""Whether two runs gave the same outputs, and where they part. Knows token ids; the model is asked through a call."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass
from statistics import median

import numpy as np

from cbatch.types import Tokens

EXAMPLES = 10

Outputs = Mapping[str, Tokens]
"""Token ids of completed requests, by request id."""

Gap = Callable[[str, int, int, int], "float | None"]
"""`gap(request id, position, baseline's token, variant's token)`: by how much their logits differ there, computed
anew after the tokens that both share; None where that can't be told."""


@dataclass(frozen=True, slots=True)
class Difference:
    """The first place where two outputs of a request part."""

    id: str
    position: int
    """0-based, in output tokens."""
    baseline_token: int | None
    """None where the output had ended already."""
    variant_token: int | None
    gap: float | None
    """Between the logits of the two tokens; None where it wasn't computed, or one output had ended."""


@dataclass(frozen=True, slots=True)
class Audit:
    """How far the outputs of a variant are those of the baseline."""

    variant: str
    requests: int
    """Completed in both."""
    same: int
    """With the same tokens from first to last."""
    unmatched: int
    """Completed in one of the two only."""
    examples: tuple[Difference, ...]
    """At most `EXAMPLES`, spread evenly over those that differ."""

    @property
    def share(self) -> float | None:
        """Same / requests; None without requests."""
        return None if self.requests == 0 else self.same / self.requests

    @property
    def gaps(self) -> tuple[float, ...]:
        """Logit gaps of those examples for which one was computed."""
        return tuple(example.gap for example in self.examples if example.gap is not None)

    @property
    def median_gap(self) -> float | None:
        return median(self.gaps) if self.gaps else None

    @property
    def max_gap(self) -> float | None:
        return max(self.gaps, default=None)

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        computed = {"share": self.share, "median_gap": self.median_gap, "max_gap": self.max_gap}
        return {**asdict(self), "examples": [asdict(example) for example in self.examples], **computed}


@dataclass(frozen=True, slots=True)
class Repeatability:
    """How many requests had the same output in every repetition of one variant."""

    variant: str
    repeats: int
    requests: int
    """Completed in all."""
    same: int

    def to_dict(self) -> dict[str, object]:
        """JSON-ready."""
        return asdict(self)


def first_difference(one: Tokens, other: Tokens) -> int | None:
    """0-based position of the first token that isn't the same; None where there is none.

    Where one output goes on after the other has ended, that is the length of the shorter one.
    """
    shared = min(one.size, other.size)
    unlike = np.flatnonzero(one[:shared] != other[:shared])
    if unlike.size:
        return int(unlike[0])
    return None if one.size == other.size else shared


def audit(variant: str, baseline: Outputs, outputs: Outputs, gap: Gap | None = None) -> Audit:
    """Compare each request's output with the baseline's, in the order of the baseline.

    `gap` is asked for the examples, at most `EXAMPLES` times.
    """
    both = [id_ for id_ in baseline if id_ in outputs]
    places = {id_: first_difference(baseline[id_], outputs[id_]) for id_ in both}
    parted = [(id_, place) for id_, place in places.items() if place is not None]
    examples = [_difference(id_, place, baseline[id_], outputs[id_], gap) for id_, place in _spread(parted)]
    unmatched = len(baseline) + len(outputs) - 2 * len(both)
    return Audit(variant, len(both), len(both) - len(parted), unmatched, tuple(examples))


def repeatability(variant: str, repetitions: Sequence[Outputs]) -> Repeatability:
    """Of the outputs of each repetition of one variant."""
    first, *rest = repetitions or [{}]
    common = [id_ for id_ in first if all(id_ in outputs for outputs in rest)]
    same = sum(all(np.array_equal(first[id_], outputs[id_]) for outputs in rest) for id_ in common)
    return Repeatability(variant, len(repetitions), len(common), same)


def _spread(parted: list[tuple[str, int]]) -> list[tuple[str, int]]:
    """At most `EXAMPLES`, evenly: the first few may be of a time when the batch was still small."""
    if len(parted) <= EXAMPLES:
        return parted
    return [parted[i * len(parted) // EXAMPLES] for i in range(EXAMPLES)]


def _difference(id_: str, place: int, one: Tokens, other: Tokens, gap: Gap | None) -> Difference:
    ours, theirs = (int(tokens[place]) if place < tokens.size else None for tokens in (one, other))
    if gap is None or ours is None or theirs is None:
        return Difference(id_, place, ours, theirs, None)
    return Difference(id_, place, ours, theirs, gap(id_, place, ours, theirs))
