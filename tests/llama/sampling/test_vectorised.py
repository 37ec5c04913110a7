"""Rows sampled together give, token for token, what the definitions in float64 give."""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.llama.sampling import candidates, vectorised
from cbatch.llama.sampling.draw import FAILED, KNOB, knob
from cbatch.llama.sampling.vectorised import sample_rows
from cbatch.sampling import SamplingParams
from tests.llama.sampling import reference

ALMOST_ONE = 1 - 2**-53

params = st.builds(
    SamplingParams,
    temperature=st.sampled_from([1e-3, 0.1, 0.8, 1.0, 1.5, 10.0, 100.0]) | st.floats(0.01, 3),
    top_k=st.sampled_from([0, 0, 2, 3, 40, 257, 1000, 2**31 - 1]),
    top_p=st.sampled_from([1.0, 0.5, 0.95, 0.999999, 1e-9]) | st.floats(0.01, 1),
    min_p=st.sampled_from([0.0, 0.0, 0.05, 1e-12, 1.0]) | st.floats(0, 1),
)
us = st.sampled_from([0.0, 0.5, ALMOST_ONE]) | st.floats(0, ALMOST_ONE)
shapes = st.sampled_from(["normal", "zipf", "flat", "ties", "equal", "banned", "peaked", "wild"])


def logits_of(shape: str, n_vocab: int, seed: int) -> npt.NDArray[np.float32]:
    rng = np.random.default_rng(seed)
    row = rng.normal(0, 3, n_vocab)
    if shape == "zipf":
        row = -1.3 * np.log(rng.permutation(n_vocab) + 1)
    elif shape == "flat":
        row = rng.normal(0, 0.01, n_vocab)
    elif shape == "ties":
        row = np.round(row)
    elif shape == "equal":
        row = np.full(n_vocab, 1.5)
    elif shape == "banned":
        row[rng.random(n_vocab) < 0.9] = -np.inf
        row[seed % n_vocab] = 0.0
    elif shape == "peaked":
        row[seed % n_vocab] = 40
    elif shape == "wild":
        row *= 1e37
    return row.astype(np.float32)


def sample(logits: npt.NDArray[np.float32], sampling: list[SamplingParams], u: list[float]) -> list[int]:
    knobs = np.array([knob(s, logits.shape[1], x) for s, x in zip(sampling, u, strict=True)], dtype=KNOB)
    with np.errstate(over="ignore", invalid="ignore"):
        return [int(token) for token in sample_rows(logits, list(range(len(logits))), knobs)]


rows_strategy = st.lists(st.tuples(shapes, st.integers(0, 2**32), params, us), min_size=1, max_size=4)


@settings(deadline=None, max_examples=150)
@given(st.sampled_from([1, 2, 3, 7, 33, 1000, 3000, 5003]), rows_strategy)
def test_agrees_with_the_definition(n_vocab: int, rows: list[tuple[str, int, SamplingParams, float]]) -> None:
    logits = np.stack([logits_of(shape, n_vocab, seed) for shape, seed, _, _ in rows])
    expected = [reference.token(row, s, u) for row, (_, _, s, u) in zip(logits, rows, strict=True)]
    assert sample(logits, [s for _, _, s, _ in rows], [u for _, _, _, u in rows]) == expected


@settings(deadline=None, max_examples=30)
@given(st.sampled_from([20_011, 49_152]), rows_strategy)
def test_agrees_with_the_definition_on_large_vocabularies(
    n_vocab: int, rows: list[tuple[str, int, SamplingParams, float]]
) -> None:
    logits = np.stack([logits_of(shape, n_vocab, seed) for shape, seed, _, _ in rows])
    expected = [reference.token(row, s, u) for row, (_, _, s, u) in zip(logits, rows, strict=True)]
    assert sample(logits, [s for _, _, s, _ in rows], [u for _, _, _, u in rows]) == expected


@pytest.mark.parametrize("temperature", [0.7, 1.0, 1.4])
@pytest.mark.parametrize("top_p", [0.6, 0.95, 0.9999, 1.0])
@pytest.mark.parametrize(("min_p", "top_k"), [(0.0, 0), (1e-4, 0), (0.0, 1500)])
def test_agrees_over_many_draws_from_one_distribution(
    temperature: float, top_p: float, min_p: float, top_k: int
) -> None:
    """Every u takes its own turn through bounds and fallbacks; a Zipf tail makes all of them happen."""
    n, n_vocab = 128, 8192
    sampling = SamplingParams(temperature=temperature, top_k=top_k, top_p=top_p, min_p=min_p)
    row = logits_of("zipf", n_vocab, 3)
    u = np.random.default_rng(0).random(n).tolist()
    ids = reference.kept(row, sampling)
    expected = [reference.drawn(row, ids, temperature, x) for x in u]
    assert sample(np.tile(row, (n, 1)), [sampling] * n, u) == expected


def test_every_width_is_used_and_the_first_mostly_suffices(monkeypatch: pytest.MonkeyPatch) -> None:
    widths: list[tuple[int, int]] = []
    largest = candidates.largest

    def spy(logits: npt.NDArray[np.float32], rows: list[int], k: int) -> object:
        widths.append((k, len(rows)))
        return largest(logits, rows, k)

    monkeypatch.setattr(vectorised, "largest", spy)
    n, n_vocab = 64, 32_768
    logits = np.tile(logits_of("zipf", n_vocab, 1), (n, 1))
    sample(logits, [SamplingParams(temperature=1.0)] * n, np.linspace(0, ALMOST_ONE, n).tolist())
    assert [k for k, _ in widths] == [*vectorised._WIDTHS, n_vocab]
    assert widths[0][1] == n
    assert widths[1][1] < n / 2


def test_float32_sums_keep_their_error_bound() -> None:
    rng = np.random.default_rng(5)
    scratch = np.empty(262_144, dtype=np.float32)
    none = np.zeros(0, dtype=np.int64)
    for scale, temperature in ((0.0, 1.0), (1.0, 1.0), (3.0, 0.8), (3.0, 1e-3), (10.0, 1.0), (3.0, 100.0)):
        row = rng.normal(0, scale, scratch.size).astype(np.float32)
        row -= np.float32(12)
        peak = float(row.max()) + 12  # as if the tokens at the top had been taken out
        exact = float(np.exp((row.astype(np.float64) - peak) / temperature).sum())
        got = vectorised._sum_without(row, none, peak, temperature, scratch)
        assert abs(got - exact) <= vectorised._TAIL_ERROR * exact + vectorised._TAIL_FLOOR


def test_broken_rows_fail_alone() -> None:
    logits = np.stack([logits_of("normal", 5003, seed) for seed in range(5)])
    fine = sample(logits, [SamplingParams(temperature=1.0)] * 5, [0.3] * 5)
    logits[1, 17] = np.nan
    logits[2, 18] = np.inf
    logits[3] = -np.inf
    assert sample(logits, [SamplingParams(temperature=1.0)] * 5, [0.3] * 5) == [
        fine[0],
        FAILED,
        FAILED,
        FAILED,
        fine[4],
    ]


def test_frequencies_follow_the_softmax() -> None:
    n = 20_000
    row = np.array([1.0, 0.5, -0.2, -1.0, 2.0, -3.0], dtype=np.float32)
    sampling = SamplingParams(temperature=1.3)
    u = np.random.default_rng(11).random(n).tolist()
    tokens = sample(np.tile(row, (n, 1)), [sampling] * n, u)
    p = np.exp(row / 1.3) / np.exp(row / 1.3).sum()
    chi_square = float(((np.bincount(tokens, minlength=6) - n * p) ** 2 / (n * p)).sum())
    assert chi_square < 20.5  # 99.9th percentile at 5 degrees of freedom
