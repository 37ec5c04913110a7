"""How llama.cpp cuts a native call into ubatches, and what of each costs time. Pure; knows no times.

Every ubatch reads all the weights once. With a stream of KV a slot (split), `split_equal` takes consecutive slots, and
equally many tokens from each, so a gap between slots or between lengths begins another ubatch. In one pool (unified),
`split_simple` takes any tokens in order.
"""

from __future__ import annotations

from collections.abc import Iterable
from collections.abc import Sequence as Items
from typing import NamedTuple

from cbatch.config import padded
from cbatch.engine.compose import num_outputs
from cbatch.engine.runner import Work
from cbatch.engine.sequence import Sequence

TILE = 64
"""Query tokens of a stream in a ubatch from which the CPU's flash attention takes its tiled path."""


class Span(NamedTuple):
    """Tokens of one sequence in a call."""

    slot: int
    start: int
    """Position of the first."""
    length: int
    outputs: int
    """Rows of logits that they give; those of the last tokens."""


Spans = Items[Span]


class Ubatch(NamedTuple):
    """What of a ubatch costs time; the sizes of several may be added up, but for `tokens`."""

    tokens: int
    outputs: int
    single: int
    """Pairs of a token and a cell that it attends to, in streams of one token."""
    thin: int
    """The same, in streams of more, but fewer than `TILE`, tokens."""
    thick: int
    """The same, in streams of `TILE` tokens or more."""
    scanned: int
    """Pairs of a token and a cell that attention passes over for it, its own or not."""


def spans_of(works: Iterable[Work]) -> list[Span]:
    """Of a call, before its result is taken: only then is it known which works sample."""
    return [_span(*work) for work in works]


def _span(seq: Sequence, start: int, length: int) -> Span:
    assert seq.slot is not None
    if start >= seq.num_prompt:  # most of all works, by far: what decodes is never scored
        return Span(seq.slot, start, length, int(start + length == seq.num_tokens))
    return Span(seq.slot, start, length, num_outputs(Work(seq, start, length)))


def cut_streams(spans: Spans, most: int) -> list[Ubatch]:
    """The ubatches of a call of at most `most` tokens each, where each slot is a stream; `spans` ascend by slot."""
    found = []
    left: Spans = spans
    while left:
        group = _neighbours(left)
        lengths = [span.length for span in group]
        count = min(min(lengths), max(1, most // len(group)))
        left = left[len(group) :]
        if max(lengths) > count:
            cuts = [_cut(span, count) for span in group]
            group = [head for head, _ in cuts]
            left = [*(rest for _, tail in cuts for rest in tail), *left]
        found.append(_stream_ubatch(group, count))
    return found


def _neighbours(spans: Spans) -> Spans:
    """The first ones, as long as each is in the slot after the one before."""
    first = spans[0].slot
    for i, span in enumerate(spans):
        if span.slot != first + i:
            return spans[:i]
    return spans


def _cut(span: Span, count: int) -> tuple[Span, list[Span]]:
    """The first `count` tokens, and what is left, if anything is."""
    slot, start, length, outputs = span
    if length == count:
        return span, []
    late = min(outputs, length - count)
    return Span(slot, start, count, outputs - late), [Span(slot, start + count, length - count, late)]


def _stream_ubatch(spans: Spans, count: int) -> Ubatch:
    """Of `count` tokens from each."""
    starts = [span.start for span in spans]
    pairs = count * sum(starts) + len(starts) * _pairs(0, count)
    outputs = sum([span.outputs for span in spans])
    return _ubatch(count * len(starts), outputs, pairs, padded(max(starts) + count), count)


def cut_pool(spans: Spans, most: int, used: int) -> list[Ubatch]:
    """The same in one pool, of which `used` cells are filled once the call is done."""
    found = []
    left = list(spans)
    while left:
        room, group = most, []
        while left and room > 0:
            head, tail = _cut(left[0], min(left[0].length, room))
            room -= head.length
            group.append(head)
            left[:1] = tail
        tokens = most - room
        pairs = sum(_pairs(span.start, span.length) for span in group)
        outputs = sum(span.outputs for span in group)
        found.append(_ubatch(tokens, outputs, pairs, padded(max(1, used)), tokens))
    return found


def _ubatch(tokens: int, outputs: int, pairs: int, cells: int, each: int) -> Ubatch:
    """`each`: tokens of a stream."""
    scanned = tokens * cells
    if each == 1:
        return Ubatch(tokens, outputs, pairs, 0, 0, scanned)
    if each < TILE:
        return Ubatch(tokens, outputs, 0, pairs, 0, scanned)
    return Ubatch(tokens, outputs, 0, 0, pairs, scanned)


def _pairs(start: int, count: int) -> int:
    """Each of `count` tokens attends to itself and to all before it."""
    return count * start + count * (count + 1) // 2
