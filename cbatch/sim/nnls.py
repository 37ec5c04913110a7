"""Least squares without negative coefficients (Lawson and Hanson 1974, chapter 23: NNLS)."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[np.float64]

_TOLERANCE = 1e-10


def nnls(a: Array, b: Array) -> Array:
    """The x >= 0, float64[n], that makes |a x - b| least; `a` is float64[m, n], `b` is float64[m]."""
    scale = np.linalg.norm(a, axis=0)
    scale[scale == 0] = 1
    # of the normal equations: m is thousands, n a few tens, and the columns are scaled
    gram, moment = (a / scale).T @ (a / scale), (a / scale).T @ b
    x = np.zeros(a.shape[1])
    free = np.zeros(a.shape[1], bool)
    limit = _TOLERANCE * max(1.0, float(np.abs(moment).max(initial=0)))
    for _ in range(3 * x.size):
        gradient = np.where(free, -np.inf, moment - gram @ x)
        best = int(np.argmax(gradient))
        if gradient[best] <= limit:
            break
        free[best] = True
        x = _feasible(gram, moment, x, free)
    found: Array = x / scale
    return found


def _feasible(gram: Array, moment: Array, x: Array, free: npt.NDArray[np.bool_]) -> Array:
    """The best x with the free coefficients, of which those that would get negative are bound again."""
    while True:
        wanted = np.zeros_like(x)
        wanted[free] = np.linalg.lstsq(gram[np.ix_(free, free)], moment[free], rcond=1e-12)[0]
        low = free & (wanted <= 0)
        if not low.any():
            return wanted
        step = float((x[low] / np.maximum(x[low] - wanted[low], 1e-300)).min())
        x = x + step * (wanted - x)
        bound = free & (x <= 1e-15)
        free &= ~(bound if bound.any() else low)
        x[~free] = 0
