"""A distribution, told by its mean and percentiles. Knows no metric by name."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

P99_MINIMUM = 100
"""With fewer values, p99 is an interpolation between the two largest."""


@dataclass(frozen=True, slots=True)
class Distribution:
    """Count, mean and percentiles of a set of nanosecond values; None where there are too few values to say."""

    count: int
    mean_ns: float | None
    p50_ns: float | None
    p90_ns: float | None
    p99_ns: float | None
    """None under 100 values."""

    @classmethod
    def of(cls, values: npt.ArrayLike) -> Distribution:
        """Of `values`, float64[n] in ns; percentiles interpolate linearly, as `numpy.percentile` does."""
        array = np.asarray(values, dtype=np.float64)
        if array.size == 0:
            return cls(0, None, None, None, None)
        p50, p90, p99 = (float(p) for p in np.percentile(array, (50, 90, 99), method="linear"))
        return cls(array.size, float(array.mean()), p50, p90, p99 if array.size >= P99_MINIMUM else None)

    @property
    def p99_hidden(self) -> str | None:
        """Why there is no p99, or None where there is one."""
        return f"p99 needs {P99_MINIMUM} values, there are {self.count}" if self.p99_ns is None else None

    def to_dict(self) -> dict[str, float | str | None]:
        """JSON-ready, with units in the names."""
        return {
            "count": self.count,
            "mean_ns": self.mean_ns,
            "p50_ns": self.p50_ns,
            "p90_ns": self.p90_ns,
            "p99_ns": self.p99_ns,
            "p99_hidden": self.p99_hidden,
        }
