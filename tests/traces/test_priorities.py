from __future__ import annotations

import numpy as np
import pytest

from cbatch.errors import UsageError
from cbatch.traces.priorities import PriorityMix
from cbatch.traces.streams import stream


def test_weights_are_shares_of_their_sum() -> None:
    drawn = PriorityMix(((-1, 1.0), (0, 3.0), (5, 0.0))).draw(stream(0, "p"), 10_000)
    values, counts = np.unique(drawn, return_counts=True)
    assert values.tolist() == [-1, 0]
    assert counts[0] / 10_000 == pytest.approx(0.25, abs=0.02)


def test_one_priority_alone() -> None:
    assert PriorityMix().draw(stream(0, "p"), 3).tolist() == [0, 0, 0]


@pytest.mark.parametrize(
    ("weights", "message"),
    [
        (((0, 1.0), (0, 2.0)), "a priority is given twice in 0:1,0:2: give each once"),
        (((0, -1.0), (1, 2.0)), "weights are 0:-1,1:2: give 0 or more for each, not 0 for all"),
        (((0, 0.0),), "not 0 for all"),
        (((0, float("nan")),), "weights are 0:nan"),
        (((2**31, 1.0),), "a priority is 2147483648: give -2147483647 to 2147483647"),
    ],
)
def test_what_no_mix_is(weights: tuple[tuple[int, float], ...], message: str) -> None:
    with pytest.raises(UsageError, match=message):
        PriorityMix(weights)
