from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from scipy.stats import t as student_t

from cbatch.metrics.bootstrap import STATISTICS, Floats, Ratio, ratio_of_runs, ratios_of_requests, student

TRIES = 60


def is_inside(found: Ratio, value: float = 1.0) -> bool:
    assert found.low is not None
    assert found.high is not None
    return found.low <= value <= found.high


def two_sides(random: np.random.Generator, repeats: int, requests: int, run: float, own: float) -> list[Floats]:
    """Latencies of one variant, measured twice: requests that differ, a drift that both share, and noise of each run
    and of each request, as standard deviations of logarithms."""
    size = random.normal(0, 1, requests)
    drift = random.normal(0, 0.1, (repeats, 1))
    noise = [random.normal(0, run, (repeats, 1)) + random.normal(0, own, (repeats, requests)) for _ in range(2)]
    return [np.exp(size + drift + each) for each in noise]


@pytest.mark.parametrize("degrees", [1, 2, 9, 10, 11, 30, 1000])
def test_student_agrees_with_scipy(degrees: int) -> None:
    assert student(degrees) == pytest.approx(student_t.ppf(0.975, degrees), abs=5e-4)


def test_ratios_are_of_medians_over_repetitions() -> None:
    base = np.array([[1, 3], [2, 4], [90, 90]])
    found = ratios_of_requests(base, 2 * base[[2, 0, 1]])
    assert found["mean"].ratio == 2  # of 2, 3, 90 and twice that in another order
    assert found["p50"].ratio == 2
    assert found["p90"].ratio == pytest.approx(2)


def test_one_repetition_may_come_without_its_dimension() -> None:
    values = np.arange(1, 21)
    found = ratios_of_requests(values, values * 3)
    assert found == ratios_of_requests(values[np.newaxis], values[np.newaxis] * 3)
    assert found["mean"] == pytest.approx(
        (3, 3, 3, 20, 0)
    )  # every request takes three times as long: nothing is unsure


def test_what_did_not_complete_in_both_is_dropped_and_counted() -> None:
    base, other = np.arange(1.0, 31).reshape(2, 15), np.arange(1.0, 31).reshape(2, 15) * 2
    base[0, 3], other[1, 3], other[1, 7], base[1, 9] = np.nan, np.inf, np.inf, -np.inf
    found = ratios_of_requests(base, other)["mean"]
    assert found == pytest.approx((2, 2, 2, 12, 3))


@pytest.mark.parametrize("requests", [0, 3])
def test_without_pairs_there_is_nothing_to_tell(requests: int) -> None:
    nothing = np.full((2, requests), np.nan)
    assert set(ratios_of_requests(nothing, nothing).values()) == {Ratio(None, None, None, 0, requests)}


def test_few_pairs_have_no_interval_and_no_p99() -> None:
    nine = ratios_of_requests(np.arange(1, 10), np.arange(2, 11))
    assert (nine["p50"].ratio, nine["p50"].low, nine["p50"].high) == (6 / 5, None, None)
    assert ratios_of_requests(np.arange(1, 11), np.arange(2, 12))["p50"].low is not None
    assert ratios_of_requests(np.ones(99), np.ones(99))["p99"].ratio is None
    assert ratios_of_requests(np.ones(100), np.ones(100))["p99"] == (1, 1, 1, 100, 0)


def test_zeros_have_no_interval_and_nothing_divides_by_them() -> None:
    zeros, ones = np.zeros(20), np.ones(20)
    assert ratios_of_requests(zeros, ones)["mean"] == (None, None, None, 20, 0)
    assert ratios_of_requests(ones, zeros)["mean"] == (0, None, None, 20, 0)
    mixed = np.stack([zeros, ones, ones])
    assert ratios_of_requests(mixed, mixed[[1, 0, 2]])["mean"] == (1, None, None, 20, 0)
    assert ratio_of_runs([0, 0], [1, 1]) == (None, None, None, 2, 0)
    assert ratio_of_runs([1, 1], [0, 0]) == (0, None, None, 2, 0)


def test_the_seed_decides_and_zero_is_a_seed() -> None:
    one, other = two_sides(np.random.default_rng(0), 3, 30, 0.05, 0.2)
    found = [ratios_of_requests(one, other, seed=seed, resamples=50)["mean"] for seed in (0, 0, 1)]
    assert found[0] == found[1]
    assert found[0].low != found[2].low
    assert found[0].ratio == found[2].ratio


def test_more_values_than_a_chunk_are_the_same_draws(monkeypatch: pytest.MonkeyPatch) -> None:
    one, other = two_sides(np.random.default_rng(0), 2, 30, 0.05, 0.2)
    whole = ratios_of_requests(one, other, resamples=50)
    monkeypatch.setattr("cbatch.metrics.bootstrap.CHUNK", 7 * 30 * 4)
    assert ratios_of_requests(one, other, resamples=50) == whole


def test_shapes_must_agree() -> None:
    with pytest.raises(ValueError, match="the baseline has"):
        ratios_of_requests(np.ones((2, 3)), np.ones((3, 3)))
    with pytest.raises(ValueError, match="the variant"):
        ratio_of_runs([1.0], [1.0, 2.0])


def test_a_figure_of_runs_has_student_s_interval() -> None:
    found = ratio_of_runs([1, 1, 1], np.exp([0.1, 0.2, 0.3]))
    reach = 4.302653 * 0.1 / 3**0.5
    assert found == pytest.approx((np.exp(0.2), np.exp(0.2 - reach), np.exp(0.2 + reach), 3, 0))


def test_one_run_has_a_ratio_and_no_interval() -> None:
    assert ratio_of_runs([2, np.nan, 3], [3, 1, np.inf]) == (1.5, None, None, 1, 2)
    assert ratio_of_runs([], []) == (None, None, None, 0, 0)


@given(st.lists(st.tuples(st.floats(1e-30, 1e30), st.floats(1e-30, 1e30)), min_size=2, max_size=6))
def test_the_interval_holds_the_ratio(pairs: list[tuple[float, float]]) -> None:
    base, other = np.array(pairs).T
    found = ratio_of_runs(base, other)
    assert found.ratio is not None
    assert is_inside(found, found.ratio)


@pytest.mark.parametrize("repeats", [3, 5])
@pytest.mark.parametrize(("run", "own"), [(0.05, 0.02), (0.05, 0.3), (0, 0.3)])
def test_a_variant_against_itself_shows_no_difference_in_latencies(repeats: int, run: float, own: float) -> None:
    random = np.random.default_rng(repeats)
    inside = dict.fromkeys(STATISTICS, 0)
    for seed in range(TRIES):
        found = ratios_of_requests(*two_sides(random, repeats, 100, run, own), seed=seed, resamples=100)
        for name, ratio in found.items():
            inside[name] += is_inside(ratio)
    assert min(inside.values()) >= 0.9 * TRIES, inside


@pytest.mark.parametrize("repeats", [2, 3, 5])
def test_a_variant_against_itself_shows_no_difference_in_figures_of_runs(repeats: int) -> None:
    random = np.random.default_rng(repeats)
    tries, inside = 1000, 0
    for _ in range(tries):
        drift = random.normal(0, 0.3, repeats)
        sides = (np.exp(drift + random.normal(0, 0.05, repeats)) for _ in range(2))
        inside += is_inside(ratio_of_runs(*sides))
    assert 0.92 <= inside / tries <= 0.98  # as wide as it has to be, and no wider


def test_a_difference_beyond_the_noise_is_seen() -> None:
    random = np.random.default_rng(0)
    one, other = two_sides(random, 3, 100, 0.01, 0.05)
    for name, found in ratios_of_requests(one, other * 0.8, resamples=200).items():
        assert is_inside(found, 0.8), name
        assert not is_inside(found), name


def test_run_noise_widens_what_the_requests_alone_would_say() -> None:
    random = np.random.default_rng(0)
    one, other = two_sides(random, 3, 200, 0.2, 0.0)
    found = ratios_of_requests(one, other)["mean"]
    assert found.low is not None
    assert found.high is not None
    whole = ratio_of_runs(one.mean(axis=1), other.mean(axis=1))
    assert found == pytest.approx((*whole[:3], 200, 0))  # no noise of requests: all that is left is the runs'
