"""Text to tokens and back, by the model's vocabulary. Knows nothing of chats, sequences or batches.

The library's tokeniser is const, so one `Tokenizer` may be used from several threads.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterable, Iterator, Sequence
from functools import cached_property

import numpy as np

from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.types import Tokens

_SPACE = " \t\n\v\f\r"  # C's isspace
_PIECE_BYTES = 64


class Tokenizer:
    """Tokenises for one model, which must outlive it."""

    def __init__(self, model: Model) -> None:
        self._vocab = model.vocab
        self._n_vocab = model.n_vocab
        self._bytes: dict[int, bytes] = {}

    @cached_property
    def bos(self) -> int | None:
        """The beginning-of-sequence token, if the vocabulary has one."""
        token = int(C.llama_vocab_bos(self._vocab))
        return None if token == C.LLAMA_TOKEN_NULL else token

    @cached_property
    def add_bos(self) -> bool:
        """Whether the vocabulary wants a BOS at the start of every prompt."""
        return self.bos is not None and bool(C.llama_vocab_get_add_bos(self._vocab))

    @property
    def control_texts(self) -> tuple[str, ...]:
        """Texts that only `parse_special=True` turns into one token each: the ones that structure a prompt."""
        return tuple(self._control)

    def tokenize(self, text: str, *, parse_special: bool) -> Tokens:
        """int32[n], without BOS. Raises `UnicodeEncodeError` where `text` holds lone surrogates.

        With `parse_special=False` the result holds no token of `control_texts`.
        """
        if parse_special or self._always_parsed is None or self._always_parsed.search(text) is None:
            return self._tokenize(text, parse_special)
        return _concatenate(self._tokenize(part, False) for part in _cut(text, self._always_parsed))

    def tokenize_pieces(self, pieces: Sequence[str]) -> Tokens:
        """int32[n] of pieces that are by turns literal text (perhaps empty) and one of `control_texts`.

        The tokens are those of the joined text, had only the odd pieces been taken for control tokens.
        """
        return _concatenate(self._piece(pieces, i) for i in range(len(pieces)))

    def with_bos(self, tokens: Tokens) -> Tokens:
        """`tokens` with one BOS in front where the vocabulary wants it, and never two, whatever a template wrote."""
        leading = 0
        while leading < tokens.size and tokens[leading] == self.bos:
            leading += 1
        if leading > 1:
            return tokens[leading - 1 :]
        if leading == 0 and self.add_bos:
            return np.concatenate([np.array([self.bos], np.int32), tokens])
        return tokens

    def token_bytes(self, token: int) -> bytes:
        """What the token prints, nothing for control tokens. Raises `IndexError` outside the vocabulary."""
        found = self._bytes.get(token)
        if found is None:
            found = self._bytes[token] = self._read_bytes(token)
        return found

    def detokenize(self, tokens: Iterable[int]) -> str:
        """The text of all tokens together; bytes that aren't UTF-8 become U+FFFD."""
        return b"".join(self.token_bytes(int(token)) for token in tokens).decode("utf-8", "replace")

    @cached_property
    def _control(self) -> dict[str, int]:
        """Token by control text."""
        found: dict[str, int] = {}
        for token in range(self._n_vocab):
            attr = C.llama_vocab_get_attr(self._vocab, token)
            if attr & (C.LLAMA_TOKEN_ATTR_CONTROL | C.LLAMA_TOKEN_ATTR_UNKNOWN | C.LLAMA_TOKEN_ATTR_USER_DEFINED):
                text = C.llama_vocab_get_text(self._vocab, token).decode("utf-8", "replace")
                if text and (not attr & C.LLAMA_TOKEN_ATTR_USER_DEFINED or _looks_special(text)):
                    found.setdefault(text, token)
        return found

    @cached_property
    def _always_parsed(self) -> re.Pattern[str] | None:
        """Control texts that the library parses even with `parse_special=False`, because they are USER_DEFINED.

        It marks gpt-oss's `<|start|>` and `<|message|>` so, to have them printed.
        """
        texts = [text for text, token in self._control.items() if self._has(token, C.LLAMA_TOKEN_ATTR_USER_DEFINED)]
        return re.compile("|".join(map(re.escape, texts))) if texts else None

    def _has(self, token: int, attr: int) -> bool:
        return bool(C.llama_vocab_get_attr(self._vocab, token) & attr)

    def _tokenize(self, text: str, parse_special: bool) -> Tokens:
        data = text.encode()
        room = len(data) + 8
        while True:
            tokens = np.empty(room, np.int32)
            pointer = tokens.ctypes.data_as(C.llama_token_p)
            count = C.llama_tokenize(self._vocab, data, len(data), pointer, room, False, parse_special)
            if count >= 0:
                return tokens[:count]
            room = -count

    def _piece(self, pieces: Sequence[str], i: int) -> Tokens:
        if i % 2:
            return np.array([self._control[pieces[i]]], np.int32)
        text = pieces[i]
        # Some control tokens swallow the white space beside them (Phi-3's do on their right).
        if i > 0 and self._has(self._control[pieces[i - 1]], C.LLAMA_TOKEN_ATTR_RSTRIP):
            text = text.lstrip(_SPACE)
        if i + 1 < len(pieces) and self._has(self._control[pieces[i + 1]], C.LLAMA_TOKEN_ATTR_LSTRIP):
            text = text.rstrip(_SPACE)
        return self.tokenize(text, parse_special=False)

    def _read_bytes(self, token: int) -> bytes:
        if not 0 <= token < self._n_vocab:  # the library would end the process
            raise IndexError(f"token {token} is outside the vocabulary of {self._n_vocab}")
        size = _PIECE_BYTES
        while True:
            buffer = ctypes.create_string_buffer(size)
            count = C.llama_token_to_piece(self._vocab, token, buffer, size, 0, False)
            if count >= 0:
                return buffer.raw[:count]
            size = -count


def _looks_special(text: str) -> bool:
    """llama.cpp's converter calls such tokens control tokens, whatever the vocabulary says of them."""
    return (text.startswith("<|") and text.endswith("|>")) or (text.startswith("<｜") and text.endswith("｜>"))


def _cut(text: str, pattern: re.Pattern[str]) -> Iterator[str]:
    """The parts of `text`, cut inside every match so that no part holds one."""
    start = 0
    while (match := pattern.search(text, start)) is not None:
        yield text[start : match.start() + 1]
        start = match.start() + 1
    yield text[start:]


def _concatenate(parts: Iterable[Tokens]) -> Tokens:
    return np.concatenate([np.empty(0, np.int32), *parts])
