"""Prompts of an exact length with exactly the shared prefixes that a trace asks for. Knows no file and no clock.

Everything is computed from counters (SplitMix64), not drawn from generators: nothing is kept between prompts, and
any number of threads may ask for any prompt in any order.
"""

from __future__ import annotations

import hashlib
from itertools import count

import numpy as np
import numpy.typing as npt

from cbatch.traces.pool import Vocabulary, find_pool
from cbatch.traces.trace import TraceRequest
from cbatch.types import Tokens

_Words = npt.NDArray[np.uint64]

_GAMMA = np.uint64(0x9E3779B97F4A7C15)
_MIX_1 = np.uint64(0xBF58476D1CE4E5B9)
_MIX_2 = np.uint64(0x94D049BB133111EB)
_HALF = np.uint64(32)


class Synthesiser:
    """Synthesises the prompts of a trace for one vocabulary.

    Lengths: a prompt has `prompt_tokens` tokens, the BOS counted in where the vocabulary adds one; of one token, it
    is the BOS. The tokeniser maps `text(prompt)`, with that BOS, back to the prompt.

    Sharing: a prompt is its blocks one after the other, each of `prefix_block` tokens, cut at its length, then its
    own tail. The BOS takes the place of the first block's last token, so blocks end at multiples of `prefix_block`.
    A block depends on seed and id only, a tail on seed and the request's number only. Requests whose first k ids are
    equal share these k blocks, and what follows differs at once: with pools of `base` tokens each for the first token
    of a block and of a tail,
    - a tail never begins like a block;
    - blocks begin alike only where their ids, and tails only where their numbers, are congruent modulo `base`, so
      consecutive ones never do;
    - two of congruent ids still differ within the first `digits` tokens (base**digits >= 2**64), or in as many as
      the block has: then they are equal only if congruent modulo base**(tokens in the block). So ids of 64 bits give
      different blocks of `digits` tokens, beside the BOS. A first block that is all BOS tells no ids apart.
    """

    def __init__(self, vocabulary: Vocabulary, n_vocab: int, *, seed: int) -> None:
        """`seed` >= 0. Raises `ModelError` where no text of the vocabulary's tokens is sure to tokenise back."""
        self._pool = find_pool(vocabulary, n_vocab)
        tokens = self._pool.tokens
        self.base = tokens.size // 2
        """Different first tokens of blocks, and of tails."""
        self._blocks = _Texts(tokens, tokens[0::2][: self.base], _key(seed, "blocks"))
        self._tails = _Texts(tokens, tokens[1::2][: self.base], _key(seed, "tails"))
        self._bos = np.array([vocabulary.bos] if vocabulary.add_bos else [], np.int32)

    def prompt(self, request: TraceRequest, number: int) -> Tokens:
        """int32[request.prompt_tokens]: the prompt of the trace's request of that number."""
        n = request.prompt_tokens
        assert n is not None, "the request has a prompt of its own"
        shared = self._shared(request, n)
        tail = self._tails.rows((number,), max(n - shared.size, 0))[0]
        return np.concatenate([shared, tail])[:n]

    def text(self, tokens: Tokens) -> str:
        """The text of a prompt that this object made, without the BOS."""
        return self._pool.text(tokens[self._bos.size :].tolist())

    def _shared(self, request: TraceRequest, n: int) -> Tokens:
        """The BOS and the blocks that begin within `n` tokens."""
        if not request.prefix_ids:
            return self._bos
        block = request.prefix_block
        assert block is not None, "prefix_ids need a prefix_block"
        block = min(block, n)  # of a block beyond the prompt, which may be any size, only its beginning is made
        rows = self._blocks.rows(request.prefix_ids[: -(-n // block)], block)
        return np.concatenate([self._bos, rows[0, : block - self._bos.size], rows[1:].ravel()])


class _Texts:
    """A sequence of tokens for each 64-bit number; its first ones tell the number."""

    def __init__(self, tokens: Tokens, firsts: Tokens, key: np.uint64) -> None:
        self._tokens = tokens
        self._firsts = firsts
        self._key = key
        self._digits = next(digits for digits in count(1) if firsts.size**digits >= 2**64)

    def rows(self, numbers: tuple[int, ...], length: int) -> Tokens:
        """int32[len(numbers), length], a row for each of `numbers`, which fit int64."""
        ids = np.array(numbers, np.int64).view(np.uint64)
        counters = np.arange(1, length + 1, dtype=np.uint64) * _GAMMA
        drawn = _below(self._tokens.size, _mix(_mix(ids ^ self._key)[:, np.newaxis] + counters))
        rows = self._tokens[drawn]
        self._write_numbers(rows, ids)
        return rows

    def _write_numbers(self, rows: Tokens, ids: _Words) -> None:
        """Little-endian digits, each shifted by a hash of those before it, which whoever decodes them knows."""
        base = np.uint64(self._firsts.size)
        state = np.full(ids.shape, self._key)
        for column in range(min(self._digits, rows.shape[1])):
            ids, digit = np.divmod(ids, base)
            rows[:, column] = self._firsts[(digit + _below(self._firsts.size, state)) % base]
            state = _mix(state ^ digit)


def _key(seed: int, name: str) -> np.uint64:
    """64 bits for the stream of that name, equal on every platform and NumPy release."""
    words = np.frombuffer(hashlib.blake2b(f"synthesis {name}".encode(), digest_size=16).digest(), "<u4")
    key: np.uint64 = np.random.SeedSequence(seed, spawn_key=tuple(words.tolist())).generate_state(1, np.uint64)[0]
    return key


def _mix(z: _Words) -> _Words:
    """The finaliser of SplitMix64, a permutation of 64 bits (Steele, Lea and Flood, OOPSLA 2014; Vigna's constants)."""
    z = (z ^ (z >> np.uint64(30))) * _MIX_1  # wraps at 2**64, as it should
    z = (z ^ (z >> np.uint64(27))) * _MIX_2
    z ^= z >> np.uint64(31)
    return z


def _below(bound: int, z: _Words) -> _Words:
    """Random words as numbers in [0, bound), bound <= 2**32: the upper halves, scaled (Lemire 2019, without rejection).

    Their chances differ by less than bound / 2**32 of themselves.
    """
    numbers: _Words = ((z >> _HALF) * np.uint64(bound)) >> _HALF
    return numbers
