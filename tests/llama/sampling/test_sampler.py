from __future__ import annotations

import numpy as np
import numpy.typing as npt
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.engine.sequence import Sequence
from cbatch.llama.sampling import FAILED, Sampler
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.llama.sampling import reference

MIXED = [
    SamplingParams(),
    SamplingParams(temperature=0.8, top_k=40, top_p=0.95),
    SamplingParams(temperature=1.0),
    SamplingParams(temperature=1.0, top_k=1),
    SamplingParams(temperature=0.9, typical_p=0.6),
    SamplingParams(temperature=1.2, min_p=0.1, repetition_penalty=1.3),
    SamplingParams(frequency_penalty=0.5, presence_penalty=0.5),
    SamplingParams(temperature=0.7, top_p=0.9, logit_bias=((5, 4.0), (6, -100.0))),
    SamplingParams(temperature=1e-3, top_k=3),
    SamplingParams(temperature=100.0, top_k=700),
]


def sequence(sampling: SamplingParams, seed: int = 0, output: tuple[int, ...] = ()) -> Sequence:
    seq = Sequence(Request("r", np.array([1, 2, 3], dtype=np.int32), sampling, stream_seed=seed), 0)
    for token in output:
        seq.append(token, 0)
    return seq


def logits(rows: int, n_vocab: int, seed: int = 0) -> npt.NDArray[np.float32]:
    return np.random.default_rng(seed).normal(0, 3, (rows, n_vocab)).astype(np.float32)


def test_tokens_do_not_depend_on_the_number_of_threads() -> None:
    matrix = logits(24, 3001)
    matrix[3, [1, 2]] = 3e38, -3e38
    matrix[7] = np.nan
    seqs = [sequence(SamplingParams(temperature=0.9, typical_p=0.2 + i / 40), i) for i in range(24)]
    one, four = (Sampler(3001, threads).sample(matrix, seqs) for threads in (1, 4))
    assert one == four
    assert (one[3], one[7]) == (1, FAILED)
    assert len(set(one)) > 16


@pytest.mark.parametrize("n_vocab", [1, 2, 50, 5003])
def test_greedy_rows_are_argmax(n_vocab: int) -> None:
    matrix = logits(8, n_vocab)
    expected = matrix.argmax(axis=1).tolist()
    assert Sampler(n_vocab).sample(matrix, [sequence(SamplingParams()) for _ in range(8)]) == expected
    assert Sampler(n_vocab).sample(matrix, [sequence(SamplingParams(temperature=2.0, top_k=1))] * 8) == expected


def test_the_lowest_id_wins_ties() -> None:
    matrix = np.zeros((3, 40), dtype=np.float32)
    matrix[1, [7, 30]] = 2
    matrix[2, [8, 3]] = 0.0, -0.0
    matrix[2, :3] = -1
    assert Sampler(40).sample(matrix, [sequence(SamplingParams())] * 3) == [0, 7, 3]


@settings(deadline=None, max_examples=40)
@given(st.permutations(range(len(MIXED))), st.integers(1, len(MIXED)), st.integers(0, 2**64 - 1))
def test_a_row_gives_the_same_token_alone_and_among_others(order: list[int], n: int, seed: int) -> None:
    matrix = logits(len(MIXED), 3001, seed % 1000)
    seqs = [sequence(s, seed + i, (4, 5, 4)) for i, s in enumerate(MIXED)]
    alone = [Sampler(3001).sample(matrix[i : i + 1].copy(), [seq])[0] for i, seq in enumerate(seqs)]
    some = order[:n]
    together = Sampler(3001).sample(matrix[some].copy(), [seqs[i] for i in some])
    assert together == [alone[i] for i in some]


def test_agrees_with_the_definition_over_a_whole_generation() -> None:
    n_vocab, rng = 211, np.random.default_rng(3)
    chosen = [s for s in MIXED if s.typical_p == 1]
    seqs = [sequence(s, seed=i) for i, s in enumerate(chosen)]
    sampler = Sampler(n_vocab)
    for step in range(40):
        matrix = rng.normal(0, 2, (len(seqs), n_vocab)).astype(np.float32)
        expected = []
        for row, seq in zip(matrix, seqs, strict=True):
            sampling = seq.request.sampling
            patched = reference.patched(row, sampling, [1, 2, 3], seq.output)
            u = reference.uniform(seq.request.stream_seed, step)
            expected.append(reference.token(patched, sampling, u))
        tokens = sampler.sample(matrix, seqs)
        assert tokens == expected
        for seq, token in zip(seqs, tokens, strict=True):
            seq.append(token, 0)


def test_forgetting_a_sequence_changes_nothing_but_memory() -> None:
    sampling = SamplingParams(temperature=1.0, repetition_penalty=1.5, frequency_penalty=1.0)
    kept, forgotten = Sampler(64), Sampler(64)
    seq = sequence(sampling, seed=9)
    for step in range(20):
        matrix = logits(1, 64, step)
        forgotten.forget(seq)
        token = kept.sample(matrix.copy(), [seq])
        assert forgotten.sample(matrix.copy(), [seq]) == token
        seq.append(token[0], 0)
    kept.forget(seq)
    kept.forget(seq)
    assert not kept._patches


def test_streams_differ_by_seed_and_position() -> None:
    matrix = np.zeros((64, 1000), dtype=np.float32)
    sampling = SamplingParams(temperature=1.0)
    by_seed = Sampler(1000).sample(matrix, [sequence(sampling, seed=i) for i in range(64)])
    by_position = Sampler(1000).sample(matrix, [sequence(sampling, output=(0,) * i) for i in range(64)])
    assert len(set(by_seed)) > 50
    assert len(set(by_position)) > 50


def test_a_further_sample_draws_as_the_only_one_with_its_seed() -> None:
    matrix = np.zeros((8, 1000), dtype=np.float32)
    sampling = SamplingParams(temperature=1.0, n=8)
    request = Request("r", np.array([1], np.int32), sampling, stream_seed=3, fork_seeds=tuple(range(4, 11)))
    forks = Sampler(1000).sample(matrix, [Sequence(request, 0, sample) for sample in range(8)])
    assert forks == Sampler(1000).sample(matrix, [sequence(sampling, seed=3 + i) for i in range(8)])
    assert len(set(forks)) == 8


@pytest.mark.parametrize("bad", [np.nan, np.inf, -np.inf])
def test_a_broken_row_fails_and_no_other(bad: float) -> None:
    matrix = logits(2 * len(MIXED), 1500)
    seqs = [sequence(s, i) for i, s in enumerate(MIXED + MIXED)]
    expected = Sampler(1500).sample(matrix.copy(), seqs)
    matrix[: len(MIXED), 0 if np.isfinite(bad) or bad != -np.inf else slice(None)] = bad
    got = Sampler(1500).sample(matrix, seqs)
    assert got[: len(MIXED)] == [FAILED] * len(MIXED)
    assert got[len(MIXED) :] == expected[len(MIXED) :]


def test_minus_infinity_is_never_chosen() -> None:
    matrix = np.full((len(MIXED), 1500), -np.inf, dtype=np.float32)
    matrix[:, [700, 1400]] = 0.0
    tokens = Sampler(1500).sample(matrix, [sequence(s, i) for i, s in enumerate(MIXED)])
    assert set(tokens) <= {700, 1400}


def test_a_bias_of_minus_100_is_no_ban() -> None:
    matrix = np.full((1, 10), -np.inf, dtype=np.float32)
    matrix[0, 4] = 1
    assert Sampler(10).sample(matrix, [sequence(SamplingParams(logit_bias=((4, -100.0),)))]) == [4]


def test_no_rows() -> None:
    assert Sampler(10).sample(np.zeros((0, 10), dtype=np.float32), []) == []
