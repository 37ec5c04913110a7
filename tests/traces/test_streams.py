from __future__ import annotations

import pytest

from cbatch.errors import UsageError
from cbatch.traces.streams import stream


def test_a_stream_is_its_seed_and_name() -> None:
    assert stream(0, "arrivals").random() == stream(0, "arrivals").random()
    values = {stream(seed, name).random() for seed in (0, 1, 2**70) for name in ("arrivals", "prefixes")}
    assert len(values) == 6


def test_a_stream_stays_the_same_between_releases() -> None:
    assert stream(0, "arrivals").integers(0, 2**63, 2).tolist() == [8972586212306546332, 7672909073764608003]


def test_a_negative_seed() -> None:
    with pytest.raises(UsageError, match="--seed is -1: give 0 or more"):
        stream(-1, "arrivals")
