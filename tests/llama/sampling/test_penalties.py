from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from cbatch.engine.sequence import Sequence
from cbatch.llama.sampling.penalties import Patch, has_patch
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.llama.sampling import reference

N_VOCAB = 12
tokens = st.lists(st.integers(0, N_VOCAB - 1), max_size=30)
params = st.builds(
    SamplingParams,
    repetition_penalty=st.sampled_from([1.0, 1.1, 0.5, 2.0]),
    presence_penalty=st.sampled_from([0.0, 0.7, -2.0]),
    frequency_penalty=st.sampled_from([0.0, 0.3, -1.0]),
    logit_bias=st.lists(
        st.tuples(st.integers(0, N_VOCAB - 1), st.floats(-100, 100)), max_size=4, unique_by=lambda b: b[0]
    ).map(tuple),
)


@given(params, tokens.filter(bool), tokens, st.integers(0, 30))
def test_agrees_with_the_definition_at_every_step(
    sampling: SamplingParams, prompt: list[int], output: list[int], born: int
) -> None:
    """`born` is the output length at which the patch is made: at 0, or later as after a resume."""
    seq = Sequence(Request("r", np.array(prompt, dtype=np.int32), sampling), 0)
    rng = np.random.default_rng(len(output))
    patch: Patch | None = None
    for step, token in enumerate([*output, 0]):
        row = rng.normal(0, 2, N_VOCAB).astype(np.float32)
        expected = reference.patched(row, sampling, prompt, seq.output)
        if step >= born:
            patch = patch or Patch(seq)
            patch.apply(row)
            assert row.tolist() == expected.tolist()
        seq.append(token, 0)


def test_more_distinct_tokens_than_the_first_room() -> None:
    n_vocab = 1000
    sampling = SamplingParams(repetition_penalty=2.0, frequency_penalty=1.0)
    seq = Sequence(Request("r", np.array([999], dtype=np.int32), sampling), 0)
    for token in range(300):
        seq.append(token, 0)
    patch, row = Patch(seq), np.full(n_vocab, 4, dtype=np.float32)
    patch.apply(row)
    assert row.tolist() == [1.0] * 300 + [4.0] * 699 + [2.0]


def test_repeated_biases_add_up() -> None:
    sampling = SamplingParams(logit_bias=((3, 1.0), (3, 2.0), (5, -100.0)))
    row = np.zeros(8, dtype=np.float32)
    Patch(Sequence(Request("r", np.array([1], dtype=np.int32), sampling), 0)).apply(row)
    assert row.tolist() == [0, 0, 0, 3, 0, -100, 0, 0]


def test_has_patch() -> None:
    assert not has_patch(SamplingParams(temperature=1.0, top_k=4))
    assert has_patch(SamplingParams(logit_bias=((1, 1.0),)))
    assert has_patch(SamplingParams(repetition_penalty=0.9))
    assert has_patch(SamplingParams(presence_penalty=-1))
    assert has_patch(SamplingParams(frequency_penalty=1))
