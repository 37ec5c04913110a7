"""How much of the time that tuning may take is gone, and what there is still time for. Knows nothing of the work."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

from cbatch.clock import Clock


@dataclass(frozen=True, slots=True)
class Budget:
    """`seconds` from the clock's 0 on. A `share` of them is a moment: 0 is the beginning, 1 the end."""

    clock: Clock
    seconds: float

    @property
    def elapsed_s(self) -> float:
        return self.clock.now_ns() / 1e9

    def left_s(self, share: float = 1.0) -> float:
        """Until a moment; negative once that has passed."""
        return share * self.seconds - self.elapsed_s

    def until(self, share: float) -> Callable[[], bool]:
        """Whether a moment is still to come."""
        return lambda: self.left_s(share) > 0

    def rounds(self, share: float, most: int) -> Iterator[int]:
        """Numbers of rounds to begin: the first in any case, others while one more, as long as the longest, fits."""
        longest = 0.0
        for number in range(most):
            if number and self.left_s(share) < longest:
                return
            begun = self.elapsed_s
            yield number
            longest = max(longest, self.elapsed_s - begun)
