"""The most likely tokens of each row, exactly and in order. Knows logits only; no parameters, no randomness.

A row is folded into columns. The k columns with the largest maxima hold k logits at least as large as the least of
these maxima, so the row's k largest are all at or above it, and lie in columns whose maximum is: a pass of SIMD maxima
and a partition of the few maxima replace a partition of the row.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

Floats = npt.NDArray[np.float64]
Ints = npt.NDArray[np.int64]
Logits = npt.NDArray[np.float32]

_MAX_DEPTH = 128
_MIN_COLUMNS = 1024
"""More than blocks, so that only the last block can be uneven."""
_GATHER_COST = 12
"""Of picking a logit out of a row, in logits read in order; measured."""
_LOWEST = np.finfo(np.float32).min
_PADDING = np.uint64(2**64 - 1)


@dataclass(frozen=True, slots=True)
class Candidates:
    """Per row its most likely tokens: by logit descending, then id ascending.

    `found[i]` of the columns are real in row i, the others are padding. Every token at least as likely as a real
    one is there too. A row whose largest logit isn't finite (NaN or +inf somewhere, or -inf everywhere) has none.
    """

    ids: Ints
    """int64[rows, width]"""
    logits: Floats
    """float64[rows, width]; padding is -inf."""
    found: Ints
    """int64[rows]"""


def largest(logits: Logits, rows: list[int], k: int) -> Candidates:
    """At least the `k` largest finite logits of each of `rows`, with all ties; fewer where a row has fewer.

    `logits` is float32[n, n_vocab], C-contiguous; k >= 1.
    """
    n_vocab = logits.shape[1]
    depth = _depth(n_vocab, max(2 * k, _MIN_COLUMNS))
    maxima = _column_maxima(logits, rows, depth)
    floor = _floor(maxima, k)
    if k * depth * _GATHER_COST < n_vocab:
        found = [_in_columns(logits[r], maxima[i] >= floor[i], floor[i], depth) for i, r in enumerate(rows)]
    else:
        found = [np.flatnonzero(logits[r] >= floor[i]) for i, r in enumerate(rows)]
    return _ordered(logits, rows, found)


def chosen(row: Logits, ids: Ints) -> Candidates:
    """Candidates of a single row, float32[n_vocab]: the given ids."""
    return _ordered(row[None], [0], [ids])


def _depth(size: int, columns: int) -> int:
    """Into how many blocks to fold so many values that at least `columns` are left: a power of two, 1 for few values.

    With 2k columns or more, the k-th largest of their maxima isn't far below the k-th largest value.
    """
    depth = _MAX_DEPTH
    while depth > 1 and size < depth * columns:
        depth //= 2
    return depth


def _column_maxima(logits: Logits, rows: list[int], depth: int) -> Logits:
    """float32[rows, columns]: column c holds the ids c, c + columns, ..., of which the last block may lack some."""
    n_vocab = logits.shape[1]
    columns = -(-n_vocab // depth)
    full = (depth - 1) * columns if n_vocab % depth else n_vocab
    maxima = np.empty((len(rows), columns), dtype=np.float32)
    for i, r in enumerate(rows):
        row = logits[r]
        np.maximum.reduce(row[:full].reshape(-1, columns), axis=0, out=maxima[i])
        if full < n_vocab:
            rest = maxima[i, : n_vocab - full]
            np.maximum(rest, row[full:], out=rest)
    return maxima


def _floor(maxima: Logits, k: int) -> Logits:
    """float32[rows], at most the row's k-th largest logit: k columns hold one that large. NaN for a broken row.

    The columns are folded again, since a floor that is a little lower costs less than a partition of them all.
    """
    depth = _depth(maxima.shape[1], 8 * k)
    columns = maxima.shape[1] // depth  # what is left over can be left out: the floor is no higher without it
    if k < columns:
        folded = maxima[:, : depth * columns].reshape(len(maxima), depth, columns).max(axis=1)
        floor = np.partition(folded, columns - k, axis=1)[:, columns - k]
        floor = np.maximum(floor, _LOWEST)
    else:
        floor = np.full(len(maxima), _LOWEST, dtype=np.float32)
    floor[~np.isfinite(maxima.max(axis=1))] = np.nan  # which no logit reaches
    return floor


def _in_columns(row: Logits, wanted: npt.NDArray[np.bool_], floor: np.float32, depth: int) -> Ints:
    """Ids of the logits at or above `floor`, all of which lie in the wanted columns."""
    columns = wanted.size
    ids = (np.flatnonzero(wanted) + columns * np.arange(depth)[:, None]).ravel()
    if row.size % depth:
        ids = ids[ids < row.size]
    return ids[row.take(ids) >= floor]


def _ordered(logits: Logits, rows: list[int], found: list[Ints]) -> Candidates:
    sizes = np.array([ids.size for ids in found], dtype=np.int64)
    ids = np.zeros((len(rows), max(1, int(sizes.max()))), dtype=np.int64)
    for i, some in enumerate(found):
        ids[i, : some.size] = some
    starts = np.array(rows, dtype=np.int64)[:, None] * logits.shape[1]
    flat = logits.reshape(-1)
    keys = _sort_keys(flat.take(starts + ids), ids)
    keys[np.arange(ids.shape[1]) >= sizes[:, None]] = _PADDING
    keys.sort(axis=1)
    padding = keys == _PADDING
    ids = np.where(padding, np.uint64(0), keys & np.uint64(0xFFFFFFFF)).astype(np.int64)
    ordered = flat.take(starts + ids).astype(np.float64)
    ordered[padding] = -np.inf
    return Candidates(ids, ordered, sizes)


def _sort_keys(logits: Logits, ids: Ints) -> npt.NDArray[np.uint64]:
    """uint64 that sort by logit descending, then id ascending: one SIMD sort instead of an indirect one.

    The bits of an IEEE float sort like integers once negative ones are complemented and the sign bit is flipped.
    """
    bits = (np.float32(0) - logits).view(np.int32)  # subtracting makes both zeros +0
    bits ^= (bits >> 31) & np.int32(0x7FFFFFFF)
    high = bits.view(np.uint32) ^ np.uint32(0x80000000)
    return np.asarray((high.astype(np.uint64) << np.uint64(32)) | ids.astype(np.uint64))
