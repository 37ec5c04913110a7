from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from scipy import stats

from cbatch.traces.lengths import Empirical, Exponential, Fixed, LengthDistribution, LogNormal, Uniform
from cbatch.traces.streams import stream

N = 20_000


def draw(distribution: LengthDistribution, count: int = N) -> np.ndarray[tuple[int], np.dtype[np.int64]]:
    return distribution.draw(stream(0, "prompt_tokens"), count)


def test_fixed() -> None:
    assert draw(Fixed(7), 3).tolist() == [7, 7, 7]


def test_uniform_holds_both_ends_equally() -> None:
    values, counts = np.unique(draw(Uniform(3, 8)), return_counts=True)
    assert values.tolist() == [3, 4, 5, 6, 7, 8]
    assert stats.chisquare(counts).pvalue > 0.01


def test_lognormal_means_the_lengths() -> None:
    lengths = draw(LogNormal(512, 1.0))
    assert lengths.mean() == pytest.approx(512, rel=0.03)
    assert np.log(lengths).std() == pytest.approx(1.0, rel=0.03)


def test_lognormal_is_truncated_not_clamped() -> None:
    lengths = draw(LogNormal(512, 1.0, 100, 800))
    assert (lengths.min(), lengths.max()) == (100, 800)
    assert (lengths == 800).mean() < 0.002
    mu = math.log(512) - 0.5
    log = stats.truncnorm((math.log(100) - mu), (math.log(800) - mu), loc=mu)
    assert lengths.mean() == pytest.approx(log.expect(np.exp), rel=0.02)


def test_exponential_mean() -> None:
    assert draw(Exponential(128)).mean() == pytest.approx(128, rel=0.03)


@pytest.mark.parametrize("cap", [32, 128, 512, 1536])
def test_truncated_exponential_as_published(cap: int) -> None:
    lengths = draw(Exponential(128, cap))
    assert lengths.max() <= cap
    assert lengths.mean() == pytest.approx(128 - cap / math.expm1(cap / 128), rel=0.03)
    assert (lengths == cap).mean() < 0.04


def test_empirical_draws_with_replacement() -> None:
    lengths = draw(Empirical(Path("t"), np.array([5, 9, 9, 9])))
    assert (lengths == 5).mean() == pytest.approx(0.25, abs=0.02)
    assert set(lengths.tolist()) == {5, 9}


@pytest.mark.parametrize(
    "distribution",
    [
        Fixed(3),
        Uniform(1, 9),
        LogNormal(100, 2.0, 50, 200),
        Exponential(128, 32),
        Empirical(Path("t"), np.arange(1, 1000)),
    ],
)
def test_chunks_do_not_show(distribution: LengthDistribution) -> None:
    whole, rng = draw(distribution, 1000).tolist(), stream(0, "prompt_tokens")
    assert [x for size in (1, 7, 300, 692) for x in distribution.draw(rng, size).tolist()] == whole


def test_pairs_come_from_one_trace() -> None:
    a, b = Empirical(Path("a"), np.array([1, 2])), Empirical(Path("b"), np.array([1, 2]))
    assert a.paired_with(Empirical(Path("./a"), np.array([3, 4])))
    assert not a.paired_with(b)
    assert not a.paired_with(Fixed(1))
