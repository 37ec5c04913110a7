"""What a context's slots hold, on every kind of memory: cutting, sharing, ranges, and calls that fail half way."""

from __future__ import annotations

import random

import numpy as np
import pytest

from cbatch.llama import resolve
from cbatch.llama.context import Context
from cbatch.llama.model import Model
from cbatch.llama.tiny import KINDS
from tests.llama.feeding import Logits, Tokens, context, decode, feed, prefill, text


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
@pytest.mark.parametrize("kind", KINDS)
def test_ranges_are_what_each_memory_keeps(kinds: dict[str, Model], kind: str, kv_mode: str) -> None:
    with context(kinds[kind], kv_mode=kv_mode) as made:
        assert made.seq_range(1) == (-1, -1)
        assert made.is_intact(1, 0)
        for length in (1, 40, 400):
            made.clear(1)
            prefill(made, 1, text(length))
            first, last = made.seq_range(1)
            assert last == length - 1 == made.num_cells(1) - 1
            assert [n for n in range(402) if made.is_intact(1, n)] == [length]
            if kind == "llama":
                assert first == 0
            elif kind == "gemma3":
                assert (first == 0) == (length < 400)
                assert first <= max(0, length - 32 + 1)
            else:
                assert first == last
        made.clear(1)
        assert made.seq_range(1) == (-1, -1)


@pytest.mark.parametrize("kind", KINDS)
def test_cuts(kinds: dict[str, Model], kind: str) -> None:
    tokens = text(128)
    with context(kinds[kind]) as made:
        wanted = prefill(made, 0, tokens)
        prefill(made, 1, tokens)
        prefill(made, 2, tokens[:64])
        assert not made.cut(2, 65)  # there is no more of it
        assert made.is_intact(2, 64)
        possible = made.cut(1, 64)
        assert possible == (kind in ("llama", "gemma3"))  # after 128 tokens all cells of the windows are still there
        assert made.is_intact(1, 64 if possible else 128)
        if possible:
            assert np.array_equal(prefill(made, 1, tokens[64:], start=64), wanted)
        assert made.cut(1, 128)
        assert made.is_intact(1, 128)
        assert made.cut(1, 0)
        assert made.is_intact(1, 0)


def test_a_window_that_went_on_is_not_cut_to_where_its_cells_are_gone(kinds: dict[str, Model]) -> None:
    """The library says that it was done, and computes the next tokens without what is gone."""
    tokens = text(400)
    with context(kinds["gemma3"]) as made:
        prefill(made, 0, tokens)
        first, _ = made.seq_range(0)
        assert first > 0
        least = first + 32 - 1
        assert not made.cut(0, least - 1)
        assert made.is_intact(0, 400)
        assert made.cut(0, least)
        assert (
            np.abs(feed(made, (0, least, text(1))) - _alone(kinds["gemma3"], [*tokens[:least], *text(1)])).max() < 0.002
        )


def _alone(model: Model, tokens: list[int]) -> Logits:
    with context(model, max_num_seqs=1) as made:
        return prefill(made, 0, np.array(tokens, np.int32))


@pytest.mark.parametrize("flash_attn", ["off", "on"])
def test_forks_share_cells_and_go_their_own_ways(kinds: dict[str, Model], flash_attn: str) -> None:
    tokens = text(200)
    with context(kinds["llama"], kv_mode="unified", flash_attn=flash_attn, max_num_seqs=4, cells_per_seq=64) as made:
        assert made.can_fork
        prefill(made, 0, tokens)
        assert made.fork(0, 1, 200)
        assert made.fork(0, 2, 100)
        assert made.fork(2, 3, 50)  # 550 tokens in 256 cells
        assert [made.num_cells(slot) for slot in range(4)] == [200, 200, 100, 50]
        feed(made, *((slot, made.num_cells(slot), text(3, seed=slot)) for slot in range(4)))
        made.clear(0)
        got = [feed(made, (slot, made.num_cells(slot), text(1)))[0] for slot in (1, 2, 3)]
    for slot, length, logits in zip((1, 2, 3), (200, 100, 50), got, strict=True):
        alone = _alone(kinds["llama"], [*tokens[:length], *text(3, seed=slot), *text(1)])
        assert np.abs(logits - alone).max() < (0.001 if flash_attn == "off" else 0.05)


def test_forks_that_cannot_be(kinds: dict[str, Model]) -> None:
    for kind, kv_mode in [("llama", "split"), *((kind, "unified") for kind in ("gemma3", "mamba", "jamba"))]:
        with context(kinds[kind], kv_mode=kv_mode) as made:
            assert not made.can_fork
            prefill(made, 0, text(50))
            prefill(made, 1, text(50))
            assert not made.fork(0, 1, 50)
            assert made.seq_range(1) == (-1, -1)
            assert made.is_intact(0, 50)
    with context(kinds["llama"], kv_mode="unified") as made:
        prefill(made, 0, text(50))
        assert not made.fork(0, 1, 51)


@pytest.mark.parametrize("flash_attn", ["off", "on"])
@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_windows_in_company_lose_nothing(kinds: dict[str, Model], kv_mode: str, flash_attn: str) -> None:
    """Sequences come, go on by any number of tokens beside others, and leave, while windows give up their cells."""
    prompts = [text(length, seed=i) for i, length in enumerate([20, 240, 60, 240, 120, 240, 240, 33] * 3)]
    alone = [_alone(kinds["gemma3"], prompt.tolist()) for prompt in prompts]
    with context(
        kinds["gemma3"], max_num_seqs=6, cells_per_seq=256, ubatch=32, kv_mode=kv_mode, flash_attn=flash_attn
    ) as made:
        together = _in_company(made, prompts, random.Random(0))
    for i, logits in together.items():
        assert np.abs(logits - alone[i]).max() < (0.01 if flash_attn == "off" else 0.1)
    assert len(together) == len(prompts)


def _in_company(made: Context, prompts: list[Tokens], rng: random.Random) -> dict[int, Logits]:
    """The logits after each prompt, computed in random pieces, as many tokens a call as the context takes."""
    waiting, running, found = list(range(len(prompts))), dict[int, tuple[int, int]](), dict[int, Logits]()
    while waiting or running:
        for slot in set(range(made.resolved.max_num_seqs)) - running.keys():
            if waiting:
                running[slot] = (waiting.pop(0), 0)
        room, parts = made.max_batched_tokens, list[tuple[int, int, Tokens]]()
        for slot, (i, done) in sorted(running.items()):
            piece = prompts[i][done : done + min(room, rng.choice([1, 5, 20, 64, 200]))]
            if len(piece) and rng.random() < 0.7:
                parts.append((slot, done, piece))
                room -= len(piece)
        for (slot, done, piece), logits in zip(parts, feed(made, *parts) if parts else [], strict=True):
            i = running[slot][0]
            running[slot] = (i, done + len(piece))
            if running[slot][1] == len(prompts[i]):
                found[i] = logits
                made.clear(slot)
                del running[slot]
    return found


def test_the_library_loses_windows_in_a_pool_when_a_call_has_several_ubatches(
    kinds: dict[str, Model], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Why `resolve` gives such contexts calls of one ubatch. Should this fail, the library has mended it."""
    monkeypatch.setattr(resolve, "_batches", lambda model, config: (config.ubatch, config.max_num_batched_tokens))
    with pytest.raises(AssertionError):
        test_windows_in_company_lose_nothing(kinds, "unified", "off")


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
@pytest.mark.parametrize("kind", ["llama", "gemma3"])
def test_a_call_that_fails_leaves_what_was_there_before(kinds: dict[str, Model], kind: str, kv_mode: str) -> None:
    with context(kinds[kind], kv_mode=kv_mode) as made:
        for slot in range(3):
            prefill(made, slot, text(128, seed=slot))
        abort(made, (0, 128, text(1)), (2, 128, text(40)))
        for slot in range(3):
            assert made.cut(slot, 128)
            assert np.abs(feed(made, (slot, 128, text(1)))[0] - _after_one_more(kinds[kind], slot)).max() < 0.002


@pytest.mark.parametrize("kind", ["mamba", "jamba"])
def test_a_call_that_fails_spoils_the_states_of_its_sequences(kinds: dict[str, Model], kind: str) -> None:
    with context(kinds[kind]) as made:
        for slot in range(3):
            prefill(made, slot, text(128, seed=slot))
        abort(made, (0, 128, text(1)), (1, 128, text(1)))
        for slot in (0, 1):
            assert not made.is_intact(slot, 128)
            assert not made.cut(slot, 128)


def test_a_call_that_fails_may_spoil_states_of_sequences_outside_of_it(kinds: dict[str, Model]) -> None:
    """The library brings the states of a call's sequences together by swapping them with others, while it computes."""
    with context(kinds["jamba"], kv_mode="unified") as made:
        for slot in range(4):
            prefill(made, slot, text(128, seed=slot))
        abort(made, (1, 128, text(1)), (3, 128, text(1)))
        assert made.is_intact(2, 128)  # as far as positions tell
        assert np.abs(feed(made, (2, 128, text(1)))[0] - _after_one_more(kinds["jamba"], 2)).max() > 1


def _after_one_more(model: Model, seed: int) -> Logits:
    return _alone(model, [*text(128, seed=seed), *text(1)])


def abort(made: Context, *parts: tuple[int, int, Tokens]) -> None:
    """A call that ends at its first operation."""
    made.abort()
    assert decode(made, *parts) == 2
    made._abort_flag[0] = b"\x00"
