"""Quantities over time, in bins. Pure arithmetic on columns; no files, no pictures."""

from __future__ import annotations

import numpy as np

from cbatch.pages.files import Column

BINS = 100
"""More than a picture can show, and few enough to draw at once."""


def edges(end_ns: float) -> Column:
    """Of `BINS` bins from 0 to `end_ns`, float64[BINS + 1]."""
    return np.linspace(0.0, end_ns, BINS + 1)


def spread(at: Column, start: Column, end: Column, amount: Column) -> Column:
    """How much of the amounts falls into each bin, float64[bins]: each is spread evenly from its start to its end.

    Spans are in order and don't overlap, as steps are.
    """
    times = np.column_stack([start, end]).ravel()
    before = np.cumsum(amount) - amount
    sums = np.column_stack([before, before + amount]).ravel()
    return np.diff(np.interp(at, times, sums))


def mean_inside(at: Column, came: Column, left: Column) -> Column:
    """Time-weighted mean, in each bin, of how many have come and not left, float64[bins]."""
    return np.diff(_time_since(at, came) - _time_since(at, left)) / np.diff(at)


def _time_since(at: Column, came: Column) -> Column:
    """sum(max(0, t - came)) for each t in `at`."""
    order = np.sort(came)
    sums = np.concatenate([[0.0], np.cumsum(order)])
    count = np.searchsorted(order, at, "right")
    return np.asarray(count * at - sums[count], dtype=np.float64)


def peak_inside(came: Column, left: Column) -> int:
    """Most that are inside at once; whoever leaves when another comes has left."""
    if came.size == 0:
        return 0
    order = np.sort(came)
    return int((np.arange(1, order.size + 1) - np.searchsorted(np.sort(left), order, "right")).max())
