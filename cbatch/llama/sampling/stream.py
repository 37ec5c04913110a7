"""Random numbers without state: a function of a stream's seed and a position in it. Knows nothing of sampling.

Nothing is carried from draw to draw, so a row's numbers can't depend on its neighbours, preemption or batch order.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_MASK = 2**64 - 1


def uniform(seeds: list[int], positions: list[int]) -> npt.NDArray[np.float64]:
    """float64[n] in [0, 1): for each i, output number `positions[i]` >= 0 of SplitMix64 seeded with `seeds[i]`.

    Seeds are taken modulo 2**64. Source: Steele, Lea and Flood, "Fast splittable pseudorandom number generators",
    OOPSLA 2014, with the finaliser of Vigna's splitmix64.c; the upper 53 bits become the fraction.
    """
    z = np.array([seed & _MASK for seed in seeds], dtype=np.uint64)
    z += (np.array(positions, dtype=np.uint64) + np.uint64(1)) * _GAMMA  # wraps at 2**64, as it should
    z = (z ^ (z >> np.uint64(30))) * _MIX_1
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z ^= z >> np.uint64(31)
    return np.asarray((z >> np.uint64(11)) * 2.0**-53, dtype=np.float64)
