"""Snapshots on every kind of memory: what comes back goes on as if nothing had happened."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from cbatch.llama import snapshot
from cbatch.llama.context import Context
from cbatch.llama.model import Model
from cbatch.llama.tiny import KINDS
from tests.llama.feeding import context, feed, follow, greedy, prefill, text

FLASH_ATTN = ["off", "on"]
KV_MODES = ["split", "unified"]
LENGTHS = [20, 100, 256, 270, 400]
"""Within the window, beyond it, and with the window before, at and over the end of its 256 cells."""


def saved(made: Context, slot: int) -> snapshot.HostSnapshot:
    taken = snapshot.save(made, slot)
    assert taken is not None
    return taken


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("flash_attn", FLASH_ATTN)
@pytest.mark.parametrize("kind", sorted(KINDS.keys() - {"gemma3"}))
def test_in_split_mode_a_restored_sequence_has_the_very_same_logits(
    kinds: dict[str, Model], kind: str, flash_attn: str, length: int
) -> None:
    with context(kinds[kind], flash_attn=flash_attn) as made:
        prefill(made, 1, text(length))
        prefill(made, 0, text(40, seed=1))
        taken = saved(made, 1)
        assert taken.num_tokens == length
        assert snapshot.restore(made, 3, taken)
        assert made.is_intact(3, length)
        rest = text(30, seed=2)
        assert np.array_equal(follow(made, 1, rest, start=length), follow(made, 3, rest, start=length))
        assert made.is_intact(3, length + 30)


@pytest.mark.parametrize("length", LENGTHS)
@pytest.mark.parametrize("flash_attn", FLASH_ATTN)
@pytest.mark.parametrize("kv_mode", KV_MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_where_cells_land_elsewhere_only_rounding_differs(
    kinds: dict[str, Model], kind: str, kv_mode: str, flash_attn: str, length: int
) -> None:
    """In a pool and in windows: sums over cells go in another order. Logits have a standard deviation of 2.5."""
    with context(kinds[kind], kv_mode=kv_mode, flash_attn=flash_attn) as made:
        prefill(made, 0, text(40, seed=1))
        prefill(made, 1, text(length))
        assert snapshot.restore(made, 3, saved(made, 1))
        rest = text(30, seed=2)
        undisturbed, restored = follow(made, 1, rest, start=length), follow(made, 3, rest, start=length)
    # flash attention rounds what it sums to f16
    assert np.abs(undisturbed - restored).max() < (0.002 if flash_attn == "off" else 0.05)


@pytest.mark.parametrize("kv_mode", KV_MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_greedy_tokens_are_the_same_in_any_slot_of_any_context_of_the_same_make(
    kinds: dict[str, Model], kind: str, kv_mode: str
) -> None:
    with context(kinds[kind], kv_mode=kv_mode) as made:
        first = int(prefill(made, 2, text(300)).argmax())
        taken = saved(made, 2)
        undisturbed = greedy(made, 2, first, 40, start=300)
    with context(kinds[kind], kv_mode=kv_mode) as made:
        for slot in (0, 3):
            assert snapshot.restore(made, slot, taken)
        for slot in (3, 0):
            assert greedy(made, slot, first, 40, start=300) == undisturbed


@pytest.mark.parametrize("kv_mode", KV_MODES)
@pytest.mark.parametrize("kind", KINDS)
def test_a_long_prompt_may_follow_a_restored_prefix(kinds: dict[str, Model], kind: str, kv_mode: str) -> None:
    tokens = text(480)
    with context(kinds[kind], kv_mode=kv_mode) as made:
        whole = prefill(made, 0, tokens)
        prefill(made, 1, tokens[:150])
        taken = saved(made, 1)
        for slot in (1, 2):
            assert snapshot.restore(made, slot, taken)
        chunk = min(330, made.max_batched_tokens)
        continued = [prefill(made, slot, tokens[150:], start=150, chunk=chunk) for slot in (1, 2)]
    for logits in continued:
        assert np.abs(logits - whole).max() < 0.002


@pytest.mark.parametrize("kind", KINDS)
def test_several_snapshots_and_their_sequences_do_not_touch_one_another(kinds: dict[str, Model], kind: str) -> None:
    with context(kinds[kind]) as made:
        lengths = {0: 10, 1: 77, 2: 300}
        for slot, length in lengths.items():
            prefill(made, slot, text(length, seed=slot))
        taken = {slot: saved(made, slot) for slot in lengths}
        wanted = {slot: feed(made, (slot, length, text(1))) for slot, length in lengths.items()}
        for slot in (2, 0, 1, 2):
            target = (slot + 1) % 3  # every slot holds something else by now
            assert snapshot.restore(made, target, taken[slot])
            assert np.abs(feed(made, (target, lengths[slot], text(1))) - wanted[slot]).max() < 0.002


def test_full_attention_can_be_cut_after_restoring(kinds: dict[str, Model]) -> None:
    tokens = text(300)
    with context(kinds["llama"]) as made:
        prefill(made, 0, tokens)
        taken = saved(made, 0)
        for length in (256, 128, 64):  # whole chunks: the shape of a call rounds too
            prefill(made, 1, tokens[:length])
            assert snapshot.restore(made, 2, taken)
            assert made.cut(2, length)
            assert made.is_intact(2, length)
            assert np.array_equal(feed(made, (1, length, text(1))), feed(made, (2, length, text(1))))
            made.clear(1)


def test_other_memories_can_be_cut_by_as_much_as_they_still_know(kinds: dict[str, Model]) -> None:
    tokens = text(300)
    for kind, by in (("gemma3", 1), ("mamba", 0), ("jamba", 0)):
        with context(kinds[kind]) as made:
            prefill(made, 0, tokens)
            taken = saved(made, 0)
            prefill(made, 1, tokens[: 300 - by])
            assert snapshot.restore(made, 2, taken)
            assert not made.cut(2, 300 - by - 1)
            assert made.is_intact(2, 300)  # nothing was done
            assert made.cut(2, 300 - by)
            assert np.abs(feed(made, (1, 300 - by, text(1))) - feed(made, (2, 300 - by, text(1)))).max() < 0.002


@pytest.mark.parametrize(
    "other",
    [{"kv_type": "f16"}, {"flash_attn": "on"}, {"kv_mode": "unified"}, {"max_num_seqs": 3}],
    ids=lambda other: next(iter(other)),
)
@pytest.mark.parametrize("kind", ["llama", "gemma3", "jamba"])
def test_a_context_of_another_make_refuses_and_stays_usable(
    kinds: dict[str, Model], kind: str, other: dict[str, object]
) -> None:
    with context(kinds[kind]) as made:
        prefill(made, 0, text(100))
        taken = saved(made, 0)
    with context(kinds[kind], **other) as made:
        wanted = prefill(made, 1, text(50, seed=1))
        prefill(made, 2, text(60, seed=2))
        assert not snapshot.restore(made, 2, taken)
        assert made.seq_range(2) == (-1, -1)
        assert np.abs(prefill(made, 2, text(50, seed=1)) - wanted).max() < 0.01
        assert made.is_intact(1, 50)


@pytest.mark.parametrize("kind", ["llama", "gemma3", "jamba"])
def test_a_pool_without_room_refuses_and_neighbours_stay(kinds: dict[str, Model], kind: str) -> None:
    with context(kinds[kind], kv_mode="unified", max_num_seqs=2, cells_per_seq=256) as made:
        prefill(made, 0, text(300))
        taken = saved(made, 0)
        assert not snapshot.restore(made, 1, taken)
        assert made.seq_range(1) == (-1, -1)
        assert made.is_intact(0, 300)
        made.clear(0)
        assert snapshot.restore(made, 1, taken)


@pytest.mark.parametrize("kind", KINDS)
def test_damaged_snapshots_are_refused(kinds: dict[str, Model], kind: str) -> None:
    with context(kinds[kind]) as made:
        prefill(made, 0, text(100))
        taken = saved(made, 0)
        short = replace(taken, data=taken.data[:-1].copy())
        padded = replace(taken, data=np.append(taken.data, np.zeros(8, np.uint8)))
        foreign = replace(taken, data=np.concatenate([np.zeros(4, np.uint8), taken.data[4:]]))
        for wrong in (short, padded, foreign, replace(taken, num_tokens=99)):
            assert snapshot.restore(made, 1, taken)
            assert not snapshot.restore(made, 1, wrong)
            assert made.seq_range(1) == (-1, -1)


def test_an_empty_slot_has_no_snapshot(kinds: dict[str, Model]) -> None:
    for model in kinds.values():
        with context(model) as made:
            assert snapshot.save(made, 0) is None


def test_bytes_are_those_of_the_cells_in_use(kinds: dict[str, Model]) -> None:
    """Of each cell its K and V, position and sequence (12 bytes), of each layer and stream a few bytes."""
    for kind, model in kinds.items():
        memory = model.memory
        windowed, full = (memory.bytes_per_token("f32", "f32", windowed=seen) for seen in (True, False))
        with context(model) as made:
            for length in (20, 200, 400):
                made.clear(0)
                prefill(made, 0, text(length))
                cells = (length if full else 0) + (min(length, memory.window) if windowed else 0)
                expected = full * length + windowed * min(length, memory.window) + memory.state_bytes + 12 * cells
                assert expected < saved(made, 0).num_bytes < expected + 300, kind
