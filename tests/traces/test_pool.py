from __future__ import annotations

from collections.abc import Iterator, Mapping
from itertools import permutations

import numpy as np
import pytest

from cbatch.config import ModelConfig
from cbatch.errors import ModelError
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.traces.pool import Pool, find_pool
from cbatch.types import Tokens
from tests.llama.vocabularies import JOINED, KINDS, NEVER_MADE, WORDS, write_vocabulary


class Greedy:
    """A vocabulary that takes the longest token at each place of a text, and -1 where there is none."""

    bos = None
    add_bos = False

    def __init__(self, texts: list[str]) -> None:
        self.texts = [text.encode() for text in texts]
        self.tokens = {text: token for token, text in reversed([*enumerate(self.texts)])}
        self.longest = max(map(len, self.texts))

    def tokenize(self, text: str, *, parse_special: bool) -> Tokens:
        data, found, at = text.encode(), [], 0
        while at < len(data):
            end = next((end for end in range(at + self.longest, at, -1) if data[at:end] in self.tokens), at + 1)
            found.append(self.tokens.get(data[at:end], -1))
            at = end
        return np.array(found, np.int32)

    def token_bytes(self, token: int) -> bytes:
        return self.texts[token]

    def pool(self) -> list[str]:
        return [self.texts[token].decode() for token in find_pool(self, len(self.texts)).tokens]


CHARACTERS = list(" abcdefghijklmnopqrstuvwxyz")


@pytest.fixture(scope="module")
def pools(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Mapping[str, Pool]]:
    folder = tmp_path_factory.mktemp("vocabularies")
    paths = {kind: write_vocabulary(folder / f"{kind}.gguf", kind) for kind in KINDS}
    models = {kind: Model(ModelConfig(path), vocab_only=True) for kind, path in paths.items()}
    yield {kind: find_pool(Tokenizer(model), model.n_vocab) for kind, model in models.items()}
    for model in models.values():
        model.close()


def texts(pool: Pool) -> set[str]:
    return {pool.vocabulary.token_bytes(token).decode() for token in pool.tokens.tolist()}


@pytest.mark.parametrize("kind", KINDS)
def test_words_that_come_back_are_in(pools: Mapping[str, Pool], kind: str) -> None:
    assert {f" {word}" for word in WORDS} <= texts(pools[kind])
    assert f" {NEVER_MADE}" not in texts(pools[kind])


@pytest.mark.parametrize("kind", ["llama", "t5", "rwkv"])
def test_two_words_that_a_token_joins_are_not_both_in(pools: Mapping[str, Pool], kind: str) -> None:
    pool = pools[kind]
    first, second = (f" {word}" for word in JOINED)
    ids = {pool.vocabulary.token_bytes(token): token for token in range(int(pool.tokens.max()) + 1)}
    both = np.array([ids[first.encode()], ids[second.encode()]], np.int32)
    assert pool.tokenised(both).size == 1
    assert len({first, second} & texts(pool)) == 1


@pytest.mark.parametrize("kind", KINDS)
def test_pairs_and_single_tokens_come_back(pools: Mapping[str, Pool], kind: str) -> None:
    pool = pools[kind]
    some = [*pool.tokens[:30].tolist(), *pool.tokens[-30:].tolist()]
    for pair in [*permutations(some, 2), *((token,) for token in pool.tokens.tolist())]:
        assert pool.tokenised(np.array(pair, np.int32)).tolist() == list(pair), pool.text(pair)


def test_the_space_before_the_first_word_is_left_to_a_tokeniser_that_adds_it(pools: Mapping[str, Pool]) -> None:
    assert {kind: pool.lead for kind, pool in pools.items()} == {"llama": 1, "t5": 0, "bert": 0, "rwkv": 0}
    assert not pools["llama"].text(pools["llama"].tokens[:2].tolist()).startswith(" ")


def test_a_word_is_a_space_and_2_to_12_lower_case_ascii_letters() -> None:
    words = [" ab", " abcdefghijkl", " cd", " ef"]
    others = [" a", " abcdefghijklm", " Ab", "ab", " ab1", " añb", "\nab", " ", "  ab"]
    assert Greedy([*words, *others]).pool() == words


@pytest.mark.parametrize(
    ("reaching", "lost"),
    [
        ("ab cd", [" ab", " cab"]),
        (" ab cd", [" ab"]),
        (" ab c", [" ab"]),
        (" ab ", [" ab"]),
        ("b ", [" ab", " cab"]),
        (" xx ab cd", [" ab"]),
        ("ab  cd", []),
        ("ab, cd", []),
        (" abcd", []),
    ],
)
def test_words_that_a_token_joins_to_the_next_are_out(reaching: str, lost: list[str]) -> None:
    words = [" ab", " cd", " ef", " gh", " ij", " cab"]
    pool = Greedy([*words, reaching, *CHARACTERS, ","]).pool()
    assert [word for word in words if word not in pool] == lost


def test_a_vocabulary_of_bytes_gives_letters_and_digits(tiny: Model) -> None:
    pool = find_pool(Tokenizer(tiny), tiny.n_vocab)
    assert pool.lead == 0
    assert pool.text(pool.tokens.tolist()) == "0123456789ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz"


def test_of_equal_texts_the_token_that_is_made_is_in() -> None:
    texts = [" ab", " cd", " ef", " gh"]
    assert find_pool(Greedy(texts * 2), 8).tokens.tolist() == [0, 1, 2, 3]


@pytest.mark.parametrize(
    "texts",
    [
        [" ab", " cd", " ef", *CHARACTERS, *(f"{a}{b}" for a in CHARACTERS[1:] for b in CHARACTERS[1:])],
        ["東", "京", " "],
        [f"{c} " for c in CHARACTERS[1:]] + [f" {c}{c}" for c in CHARACTERS[1:]],
    ],
)
def test_a_vocabulary_without_such_tokens_is_refused(texts: list[str]) -> None:
    with pytest.raises(ModelError, match=f"too few of its {len(texts)} tokens .*; give a trace with prompts"):
        find_pool(Greedy(texts), len(texts))
