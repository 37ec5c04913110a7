"""What a dry run found of a job that hasn't been begun: plain figures. Knows neither engine nor terminal."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from cbatch.types import RowFault

BINS = 12
"""Of a histogram of equal bins."""

Range = tuple[float, float]
"""At least and at most, as far as can be told."""


@dataclass(frozen=True, slots=True)
class Piece:
    """A part of a prompt."""

    text: str
    kind: str = "text"
    """`text`, `special` for a control token, or `cut` for words that stand in for tokens that aren't shown."""


@dataclass(frozen=True, slots=True)
class PromptView:
    """A row as the model will see it."""

    row: int
    id: str
    where: str
    prompt_tokens: int
    max_tokens: int
    truncated_tokens: int
    """Taken out of the prompt, which the context couldn't hold."""
    pieces: tuple[Piece, ...]


@dataclass(frozen=True, slots=True)
class FaultView:
    """A row that can't be run."""

    row: int
    id: str
    where: str
    code: str
    message: str

    @classmethod
    def of(cls, fault: RowFault) -> FaultView:
        return cls(fault.ref.number, fault.ref.id, fault.ref.where, fault.code, fault.message)


@dataclass(frozen=True, slots=True)
class TokenLengths:
    """Of prompts, in tokens; percentiles interpolate linearly, as `numpy.percentile`."""

    count: int
    total: int
    min: int
    p50: float
    p90: float
    p99: float
    max: int
    edges: tuple[int, ...]
    """Of the histogram's bins, one more than counts: [edges[i], edges[i + 1])."""
    counts: tuple[int, ...]

    @classmethod
    def of(cls, lengths: Sequence[int]) -> TokenLengths:
        """Of one length or more."""
        low, high, edges = min(lengths), max(lengths), _edges(min(lengths), max(lengths))
        p50, p90, p99 = (float(value) for value in np.percentile(lengths, (50, 90, 99)))
        counts = np.histogram(lengths, edges)[0].tolist()
        return cls(len(lengths), sum(lengths), low, p50, p90, p99, high, tuple(edges), tuple(counts))


def _edges(low: int, high: int) -> list[int]:
    """Bins of equal width; where lengths differ more than 16-fold, each twice as wide as the one before."""
    if high > 16 * low:
        return [1 << bits for bits in range(low.bit_length() - 1, high.bit_length() + 1)]
    width = -(-(high - low + 1) // BINS)
    first = low // width * width
    return list(range(first, high + width + 1, width))


@dataclass(frozen=True, slots=True)
class MemoryFit:
    """What the context has room for, and the rows that it hasn't."""

    slots: int
    cells_per_seq: int
    """KV cells of a slot; of a pool, most that one row may take."""
    total_cells: int
    kv_mode: str
    kv_type: str
    kv_bytes: float
    most_cells: int
    """KV cells that a row may ever fill; the context grows for those that need more than a slot has."""
    policy: str
    """`--on-overflow`."""
    refused: int
    """Rows of the window whose prompts are too long."""
    prompts_cut: int
    max_tokens_cut: int
    outgrown: int
    """Rows that may lose sight of their first tokens."""


@dataclass(frozen=True, slots=True)
class Estimate:
    """How long the rows may take, from a few seconds of the real engine on some of them."""

    measured_s: float
    load_s: float
    """Until the first step could begin."""
    rows_begun: int
    rows_finished: int
    at_once: int
    """Most rows that were seen to decode at once."""
    prefill_tokens_per_s: float
    decode_step_ns: float | None
    """With all slots decoding; None where outputs have one token only."""
    decode_tokens_per_s: float | None
    output_tokens: Range
    """Of a row, in the mean."""
    window_s: Range
    """For the rows that were read."""
    rows_total: int | None
    """Of the job; None where nobody can tell."""
    total_s: Range | None
    """For all of them."""


@dataclass(frozen=True, slots=True)
class Preview:
    """A job that hasn't been begun, in figures. None where no row can be run, or nothing could be measured."""

    rows_read: int
    """In the window that planning looks at."""
    all_read: bool
    """Whether there are no more."""
    prompts: tuple[PromptView, ...]
    faults: tuple[FaultView, ...]
    """All of the window."""
    lengths: TokenLengths | None
    memory: MemoryFit
    estimate: Estimate | None
    notes: tuple[str, ...] = ()
