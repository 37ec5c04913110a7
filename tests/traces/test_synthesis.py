from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.tiny import write_tiny
from cbatch.llama.tokenizer import Tokenizer
from cbatch.traces.synthesis import Synthesiser
from cbatch.traces.trace import TraceRequest
from cbatch.types import Tokens
from tests.llama.vocabularies import KINDS, write_vocabulary

LONGEST = 2048


@dataclass
class Case:
    """A vocabulary, and a synthesiser for it."""

    tokenizer: Tokenizer
    n_vocab: int
    synthesiser: Synthesiser

    def prompt(self, n: int, ids: tuple[int, ...] = (), block: int | None = None, number: int = 0) -> Tokens:
        request = TraceRequest(0, prompt_tokens=n, prefix_ids=ids, prefix_block=block if ids else None)
        return self.synthesiser.prompt(request, number)

    def tokenised(self, prompt: Tokens) -> list[int]:
        text = self.synthesiser.text(prompt)
        return list(map(int, self.tokenizer.with_bos(self.tokenizer.tokenize(text, parse_special=False))))

    @property
    def n_bos(self) -> int:
        return int(self.tokenizer.add_bos)


def case(model: Model, seed: int = 0) -> Case:
    tokenizer = Tokenizer(model)
    return Case(tokenizer, model.n_vocab, Synthesiser(tokenizer, model.n_vocab, seed=seed))


@pytest.fixture(scope="module", params=["smollm2", "tiny", "tiny without BOS", *KINDS])
def any_case(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Case]:
    if request.param in ("smollm2", "tiny"):
        yield case(request.getfixturevalue(request.param))
        return
    path = tmp_path_factory.mktemp("vocabulary") / "v.gguf"
    path = write_vocabulary(path, request.param) if request.param in KINDS else write_tiny(path, add_bos=False)
    with Model(ModelConfig(path), vocab_only=True) as model:
        yield case(model)


@pytest.fixture(scope="module")
def tiny_case(tiny: Model) -> Case:
    return case(tiny)


@pytest.fixture(scope="module")
def smol(smollm2: Model) -> Case:
    return case(smollm2)


def shared(a: Tokens, b: Tokens) -> int:
    """Length of the longest common prefix."""
    n = min(a.size, b.size)
    return int(np.argmin(np.append(a[:n] == b[:n], False)))


def test_every_length_is_exact_and_comes_back(any_case: Case) -> None:
    for n in range(1, LONGEST + 1):
        prompt = any_case.prompt(n, number=n)
        assert prompt.dtype == np.int32
        assert prompt.size == n
        assert any_case.tokenised(prompt) == prompt.tolist()


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    n=st.integers(1, 300),
    ids=st.lists(st.integers(-(2**63), 2**63 - 1), max_size=6).map(tuple),
    block=st.sampled_from([1, 2, 5, 16, 100]),
    number=st.integers(0, 2**63 - 1),
)
def test_any_chain_is_exact_and_comes_back(
    any_case: Case, n: int, ids: tuple[int, ...], block: int, number: int
) -> None:
    prompt = any_case.prompt(n, ids, block, number)
    assert prompt.size == n
    assert any_case.tokenised(prompt) == prompt.tolist()
    longer = any_case.prompt(n + 50, ids, block, number)
    assert longer[:n].tolist() == prompt.tolist()


@pytest.mark.parametrize("block", [1, 16, 512])
@pytest.mark.parametrize("k", [0, 1, 2, 4])
def test_requests_share_exactly_the_blocks_of_their_common_ids(any_case: Case, block: int, k: int) -> None:
    common = tuple(range(1000, 1000 + k))
    n = 5 * block + 20
    one, other = any_case.prompt(n, (*common, 7, 9), block, 1), any_case.prompt(n, (*common, 8, 9), block, 2)
    no_more = any_case.prompt(n, common, block, 3)
    neither = any_case.prompt(n, common, block, 4)
    expected = max(k * block, any_case.n_bos)
    if k > 0 or any_case.n_bos < block:  # a first block that is all BOS tells no ids apart
        assert shared(one, other) == expected
    assert shared(one, no_more) == expected
    assert shared(no_more, neither) == expected


def test_equal_ids_share_every_block_and_no_tail(any_case: Case) -> None:
    one, other = (any_case.prompt(50, (1, 2), 16, number) for number in (5, 6))
    assert shared(one, other) == 32
    assert any_case.prompt(50, (1, 2), 16, 5).tolist() == one.tolist()


def test_prompts_without_blocks_share_only_the_bos(any_case: Case) -> None:
    prompts = [any_case.prompt(40, number=number) for number in range(20)]
    assert {shared(a, b) for a in prompts for b in prompts if a is not b} == {any_case.n_bos}


def test_a_prompt_of_one_token_is_the_bos_where_there_is_one(any_case: Case) -> None:
    (token,) = any_case.prompt(1, (3,), 16)
    assert (token == any_case.tokenizer.bos) == any_case.tokenizer.add_bos


def test_blocks_are_cut_at_the_length(any_case: Case) -> None:
    whole = any_case.prompt(48, (1, 2, 3), 16)
    for n in (1, 15, 16, 17, 33, 47):
        assert any_case.prompt(n, (1, 2, 3), 16, number=9).tolist() == whole[:n].tolist()


def test_of_a_block_beyond_the_prompt_only_the_beginning_is_made(tiny_case: Case) -> None:
    short = tiny_case.prompt(5, (7,), 2**31 - 1).tolist()
    assert short == tiny_case.prompt(64, (7,), 64).tolist()[:5]


def test_a_block_does_not_depend_on_its_position(any_case: Case) -> None:
    bos = any_case.n_bos
    first = any_case.prompt(16, (42,), 16)
    for before in range(1, 4):
        ids = (*range(before), 42)
        later = any_case.prompt(16 * len(ids), ids, 16)[-16:]
        assert later[: 16 - bos].tolist() == first[bos:].tolist()


def test_ids_of_64_bits_give_different_blocks(any_case: Case) -> None:
    base = any_case.synthesiser.base
    digits = next(d for d in range(1, 65) if base**d >= 2**64)
    ids = [0, 1, -1, base, base**2, 3 * base**2, 2**63 - 1, -(2**63), 2**63 - base, *range(5, 5000, 77)]
    first = 10**9 + 1
    blocks = {tuple(any_case.prompt(2 * digits, (first, i), digits)[digits:].tolist()) for i in ids}
    assert len(blocks) == len(ids)


@given(a=st.integers(-(2**63), 2**63 - 1), b=st.integers(-(2**63), 2**63 - 1), digits=st.integers(0, 3))
def test_blocks_begin_alike_exactly_as_far_as_their_ids_are_congruent(
    tiny_case: Case, a: int, b: int, digits: int
) -> None:
    base = tiny_case.synthesiser.base
    b = (a + b // base**digits * base**digits + 2**63) % 2**64 - 2**63
    unsigned = a % 2**64, b % 2**64
    alike = next((d for d in range(13) if unsigned[0] % base ** (d + 1) != unsigned[1] % base ** (d + 1)), None)
    one, other = (tiny_case.prompt(33, (0, i), 16)[16:32] for i in (a, b))
    assert shared(one, other) == (16 if alike is None else alike)


def test_a_tail_never_begins_like_a_block(tiny_case: Case) -> None:
    base = tiny_case.synthesiser.base
    blocks = {int(tiny_case.prompt(33, (0, i), 16)[16]) for i in range(base)}
    tails = {int(tiny_case.prompt(2, number=i)[1]) for i in range(base)}
    assert (len(blocks), len(tails), blocks & tails) == (base, base, set())


def test_seeds_differ_and_0_is_one(smol: Case) -> None:
    def texts(seed: int) -> tuple[str, str]:
        other = Case(smol.tokenizer, smol.n_vocab, Synthesiser(smol.tokenizer, smol.n_vocab, seed=seed))
        return smol.synthesiser.text(other.prompt(20, (5,), 20)), smol.synthesiser.text(other.prompt(20, number=5))

    found = [texts(seed) for seed in (0, 1, 2**64)]
    assert found[0] == texts(0)
    assert len({text for pair in found for text in pair}) == 6


def test_the_same_tokens_on_every_machine(tiny_case: Case) -> None:
    assert (
        tiny_case.synthesiser.text(tiny_case.prompt(41, (1, -2), 16, number=3))
        == "2AIUkEyQMeaqmjeS0kOgumIwAUguboKh5BVx7D9d"
    )


def test_words_are_drawn_evenly(tiny_case: Case) -> None:
    drawn = tiny_case.prompt(62_001 + 20)[21:]
    counts = np.unique(drawn, return_counts=True)[1]
    assert counts.size == 62
    assert ((counts - 1000) ** 2 / 1000).sum() < 110  # chi-square of 61 degrees of freedom: p = 1e-4
