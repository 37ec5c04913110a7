from __future__ import annotations

import itertools
import re
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import gguf
import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.tiny import BOS, EOS, IM_END, IM_START, UNK, write_tiny
from cbatch.llama.tokenizer import Tokenizer

CONTROL = gguf.TokenType.CONTROL
USER_DEFINED = gguf.TokenType.USER_DEFINED


def open_vocabulary(path: Path, special: dict[str, gguf.TokenType], *, name: str = "test") -> Model:
    """A SentencePiece vocabulary of `special` tokens, `▁` and the 256 bytes, that puts a space before text."""
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_name(name)
    texts = ["<unk>", *special, "▁", *(f"<0x{byte:02X}>" for byte in range(256))]
    types = [gguf.TokenType.UNKNOWN, *special.values(), gguf.TokenType.NORMAL, *[gguf.TokenType.BYTE] * 256]
    writer.add_tokenizer_model("llama")
    writer.add_token_list(texts)
    writer.add_token_scores([0.0] * len(texts))
    writer.add_token_types(types)
    writer.add_unk_token_id(0)
    writer.add_bos_token_id(1)
    writer.add_eos_token_id(2)
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.close()
    return Model(ModelConfig(path), vocab_only=True)


@pytest.fixture
def sentencepiece(tmp_path: Path) -> Iterator[Tokenizer]:
    special = {"<s>": CONTROL, "</s>": CONTROL, "<think>": USER_DEFINED, "<|start|>": USER_DEFINED}
    with open_vocabulary(tmp_path / "spm.gguf", special) as model:
        yield Tokenizer(model)


@pytest.fixture(scope="module")
def bytewise(tiny: Model) -> Tokenizer:
    return Tokenizer(tiny)


@pytest.fixture(scope="module")
def smol(smollm2: Model) -> Tokenizer:
    return Tokenizer(smollm2)


@pytest.mark.parametrize("text", ["", "Hello, world", "naïve 東京 🏳️‍🌈", "a\0b", " two  spaces ", "\n" * 5000])
@pytest.mark.parametrize("vocabulary", ["bytewise", "smol"])
def test_text_comes_back(text: str, vocabulary: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(vocabulary)
    tokens = tokenizer.tokenize(text, parse_special=False)
    assert tokens.dtype == np.int32
    assert tokenizer.detokenize(tokens) == text


@given(st.text(max_size=60))
def test_any_text_comes_back(bytewise: Tokenizer, text: str) -> None:
    tokens = bytewise.tokenize(text, parse_special=False)
    assert tokens.tolist() == list(text.encode())
    assert bytewise.detokenize(tokens) == text


def test_no_bos_is_added(bytewise: Tokenizer) -> None:
    assert bytewise.tokenize("hi", parse_special=True).tolist() == [ord("h"), ord("i")]


def test_control_tokens_are_parsed_only_when_asked(bytewise: Tokenizer) -> None:
    text = "<s><|im_end|>"
    assert bytewise.tokenize(text, parse_special=True).tolist() == [BOS, IM_END]
    assert bytewise.tokenize(text, parse_special=False).tolist() == list(text.encode())


def test_lone_surrogate_is_an_error(bytewise: Tokenizer) -> None:
    with pytest.raises(UnicodeEncodeError):
        bytewise.tokenize("\ud800", parse_special=False)


def test_control_texts(bytewise: Tokenizer, sentencepiece: Tokenizer) -> None:
    assert set(bytewise.control_texts) == {"<s>", "</s>", "<unk>", "<|im_start|>", "<|im_end|>"}
    assert set(sentencepiece.control_texts) == {"<unk>", "<s>", "</s>", "<|start|>"}


def test_user_defined_token_that_looks_special_needs_parse_special_too(sentencepiece: Tokenizer) -> None:
    text = "x<|start|><|start|>y"
    start = sentencepiece.tokenize("<|start|>", parse_special=True).tolist()
    assert len(start) == 1
    tokens = sentencepiece.tokenize(text, parse_special=False)
    assert start[0] not in tokens
    assert sentencepiece.detokenize(tokens).replace(" ", "") == text
    assert np.count_nonzero(sentencepiece.tokenize(text, parse_special=True) == start[0]) == 2


def test_other_user_defined_tokens_are_always_parsed(sentencepiece: Tokenizer) -> None:
    think = sentencepiece.tokenize("<think>", parse_special=True).tolist()
    assert len(think) == 1
    assert sentencepiece.tokenize("<think>", parse_special=False).tolist() == think


PARTS = [
    "a",
    " ",
    "\n",
    "<s>",
    "</s>",
    "<|im_start|>",
    "<|im_end|>",
    "<think>",
    "<|start|>",
    "<|endoftext|>",
    "é",
    "  b",
]


@pytest.mark.parametrize("vocabulary", ["bytewise", "smol", "sentencepiece"])
def test_pieces_give_the_tokens_of_the_whole(vocabulary: str, request: pytest.FixtureRequest) -> None:
    tokenizer: Tokenizer = request.getfixturevalue(vocabulary)
    control = re.compile("(" + "|".join(map(re.escape, tokenizer.control_texts)) + ")")
    for parts in itertools.product(PARTS, repeat=3):
        text = "".join(parts)
        whole = tokenizer.tokenize(text, parse_special=True)
        assert tokenizer.tokenize_pieces(control.split(text)).tolist() == whole.tolist(), text


def test_literal_pieces_hold_no_control_token(bytewise: Tokenizer) -> None:
    pieces = ["", "<|im_start|>", "a<|im_end|>", "<|im_end|>", ""]
    assert bytewise.tokenize_pieces(pieces).tolist() == [IM_START, ord("a"), *b"<|im_end|>", IM_END]


def test_pieces_lose_the_space_that_a_control_token_swallows(tmp_path: Path) -> None:
    special = {"<s>": CONTROL, "</s>": CONTROL, "<|user|>": CONTROL, "<|endoftext|>": CONTROL}
    with open_vocabulary(tmp_path / "phi.gguf", special, name="Phi-3 mini") as model:
        tokenizer = Tokenizer(model)
        whole = tokenizer.tokenize("<|user|> \n hi<s> x", parse_special=True)
        assert tokenizer.detokenize(whole) == " hi  x"
        assert tokenizer.tokenize_pieces(["", "<|user|>", " \n hi", "<s>", " x"]).tolist() == whole.tolist()


def test_token_bytes(bytewise: Tokenizer, smol: Tokenizer) -> None:
    assert [bytewise.token_bytes(byte) for byte in range(256)] == [bytes([byte]) for byte in range(256)]
    assert [bytewise.token_bytes(token) for token in (BOS, EOS, UNK, IM_START, IM_END)] == [b""] * 5
    assert smol.token_bytes(smol.tokenize(" world", parse_special=False)[0]) == b" world"


@pytest.mark.parametrize("token", [-1, 261, 2**31])
def test_token_outside_the_vocabulary(bytewise: Tokenizer, token: int) -> None:
    with pytest.raises(IndexError, match="outside the vocabulary of 261"):
        bytewise.token_bytes(token)


def test_piece_longer_than_the_first_buffer(tmp_path: Path) -> None:
    long = "word" * 100
    with open_vocabulary(tmp_path / "v.gguf", {"<s>": CONTROL, "</s>": CONTROL, long: USER_DEFINED}) as model:
        assert Tokenizer(model).token_bytes(3) == long.encode()


def test_only_invalid_bytes_are_replaced(bytewise: Tokenizer) -> None:
    assert bytewise.detokenize([*"é€".encode(), 0xFF, ord("x"), 0xE2]) == "é€\ufffdx\ufffd"


@pytest.mark.parametrize(
    ("tokens", "wanted", "unwanted"),
    [
        ([], [BOS], []),
        ([7], [BOS, 7], [7]),
        ([BOS, 7], [BOS, 7], [BOS, 7]),
        ([BOS, BOS, 7], [BOS, 7], [BOS, 7]),
        ([BOS, BOS, BOS], [BOS], [BOS]),
        ([7, BOS, BOS], [BOS, 7, BOS, BOS], [7, BOS, BOS]),
    ],
)
def test_bos_exactly_once(tmp_path: Path, tokens: list[int], wanted: list[int], unwanted: list[int]) -> None:
    for add_bos, expected in ((True, wanted), (False, unwanted)):
        path = write_tiny(tmp_path / f"{add_bos}.gguf", add_bos=add_bos)
        with Model(ModelConfig(path), vocab_only=True) as model:
            tokenizer = Tokenizer(model)
            assert (tokenizer.bos, tokenizer.add_bos) == (BOS, add_bos)
            assert tokenizer.with_bos(np.array(tokens, np.int32)).tolist() == expected


def test_threads_may_share_it(smol: Tokenizer) -> None:
    texts = [f"Row {i}: the quick brown fox 東京 {i * i}" for i in range(200)]

    def tokenize(text: str) -> list[int]:
        return list(map(int, smol.tokenize(text, parse_special=False)))

    alone = list(map(tokenize, texts))
    with ThreadPoolExecutor(4) as pool:
        assert list(pool.map(tokenize, texts)) == alone
