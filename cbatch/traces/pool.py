"""Tokens whose texts can be joined in any order and tokenise back to the same tokens. Knows no requests and no seeds.

Tokenisers cut or merge differently beside a neighbour, so a text of arbitrary tokens seldom comes back. Words do,
each with the space before it: byte-level BPE and WordPiece cut the text there anyway, and the others (SentencePiece,
unigram, RWKV) can join two words only by a token that holds the end of one and the beginning of the next.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from typing import Protocol

import numpy as np

from cbatch.errors import ModelError
from cbatch.types import Tokens

_MOST = 2**14
"""Tokens of a pool: more would only cost time to verify. The first ones of a vocabulary are its most frequent."""
_FEWEST = 4
_ROUNDS = 12
"""Of verifying: one for each time that tokens were lost, and two."""


class Vocabulary(Protocol):
    """What is needed of a tokeniser."""

    @property
    def bos(self) -> int | None: ...

    @property
    def add_bos(self) -> bool:
        """Whether every prompt begins with `bos`."""
        ...

    def tokenize(self, text: str, *, parse_special: bool) -> Tokens:
        """int32[n], without BOS."""
        ...

    def token_bytes(self, token: int) -> bytes:
        """What the token prints, nothing for control tokens."""
        ...


@dataclass(frozen=True)
class _Kind:
    """Texts of one form. Joined, they can tokenise otherwise only by a token that reaches over a joint."""

    text: re.Pattern[bytes]
    reaching: re.Pattern[bytes]
    """Matches tokens that could; its group is what the last text but one that they touch must end with."""


_KINDS = (
    _Kind(re.compile(rb" [a-z]{2,12}"), re.compile(rb"[a-z ]*?( ?[a-z]+) [a-z]*")),
    _Kind(re.compile(rb"[0-9A-Za-z]"), re.compile(rb"([0-9A-Za-z])[0-9A-Za-z]+")),  # of vocabularies of bytes
)


@dataclass(frozen=True, eq=False)
class Pool:
    """Tokens of `vocabulary` that tokenise back in any order."""

    vocabulary: Vocabulary
    tokens: Tokens
    """int32[m], ascending, m >= 4."""
    lead: int
    """1 where the tokeniser itself puts the space before the first word, so that a text leaves it out; else 0."""

    def text(self, tokens: Iterable[int]) -> str:
        """The text of `tokens`, all of the pool, that tokenises to exactly them."""
        return b"".join(map(self.vocabulary.token_bytes, tokens))[self.lead :].decode("ascii")

    def tokenised(self, tokens: Tokens) -> Tokens:
        """What the text of `tokens` tokenises to: the same, once the pool is verified."""
        return self.vocabulary.tokenize(self.text(tokens.tolist()), parse_special=False)


def find_pool(vocabulary: Vocabulary, n_vocab: int) -> Pool:
    """The pool of a vocabulary of `n_vocab` tokens, a function of these two only.

    Raises `ModelError` where it has none.
    """
    texts = [vocabulary.token_bytes(token) for token in range(n_vocab)]
    for kind in _KINDS:
        pool = _verified(_with_lead(vocabulary, _candidates(texts, kind)))
        if pool.tokens.size >= _FEWEST:
            return pool
    raise ModelError(
        f"no prompts can be synthesised for this model: too few of its {n_vocab} tokens are words or characters "
        "that tokenise back in any order; give a trace with prompts"
    )


def _candidates(texts: Sequence[bytes], kind: _Kind) -> Tokens:
    """Tokens of that kind which no token of the vocabulary can join with a neighbour."""
    ends = {match[1] for text in texts if (match := kind.reaching.fullmatch(text))}
    found = (
        token
        for token, text in enumerate(texts)
        if kind.text.fullmatch(text) and not any(text[i:] in ends for i in range(len(text)))
    )
    return np.fromiter(islice(found, _MOST), np.int32)


def _with_lead(vocabulary: Vocabulary, tokens: Tokens) -> Pool:
    """An unverified pool, with the lead that brings back more of about 32 texts of one token."""
    some = tokens[:: max(1, tokens.size // 32), np.newaxis]
    pools = [Pool(vocabulary, tokens, lead) for lead in (0, 1)]
    return max(pools, key=lambda pool: sum(np.array_equal(pool.tokenised(token), token) for token in some))


def _verified(pool: Pool) -> Pool:
    """What is left of the pool when texts of all its tokens come back, twice in a row; else an empty one."""
    bits = np.random.Philox(key=0)
    whole = 0
    for _ in range(_ROUNDS):
        order = pool.tokens[np.argsort(bits.random_raw(pool.tokens.size), kind="stable")]
        found = pool.tokenised(order)
        if np.array_equal(found, order):
            whole += 1
            if whole == 2:
                return pool
        else:  # a token that isn't made may be found as a piece of another one that isn't, but not again then
            whole = 0
            pool = replace(pool, tokens=pool.tokens[np.isin(pool.tokens, found)])
    return replace(pool, tokens=pool.tokens[:0])
