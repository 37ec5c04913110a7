"""Generations that outgrow their context: what llama.cpp is told to drop, and that nobody else notices."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from cbatch.config import ContextConfig, ModelConfig
from cbatch.llama.kv_types import kv_types
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.llama.shift import shift_obstacle
from cbatch.llama.snapshot import save
from cbatch.llama.tiny import llama as tiny_llama
from cbatch.llama.tiny import write_tiny
from cbatch.sampling import SamplingParams
from cbatch.types import FinishReason, Request
from tests.llama.feeding import context, feed, prefill, text
from tests.llama.running import answer, llama_engine

CELLS = 256
EXACT: dict[str, Any] = {"kv_type": "f32", "flash_attn": "off"}


def long_request(name: str = "long", *, prompt: int = 100, max_tokens: int = 3 * CELLS, keep: int = 3) -> Request:
    tokens = text(prompt, seed=prompt)
    return Request(name, tokens, SamplingParams(max_tokens=max_tokens, temperature=0.0), max_cells=CELLS, keep=keep)


def by_hand(model: Model, request: Request) -> list[int]:
    """The greedy output of a loop that shifts as llama.cpp's own programs do."""
    with context(model, max_num_seqs=1, cells_per_seq=CELLS) as made:
        logits = prefill(made, 0, request.prompt, chunk=64)
        n_past, found = int(request.prompt.size), [int(logits.argmax())]
        while len(found) < request.sampling.max_tokens:
            if n_past == CELLS:
                n_discard = (n_past - request.keep) // 2
                assert C.llama_memory_seq_rm(made.memory, 0, request.keep, request.keep + n_discard)
                C.llama_memory_seq_add(made.memory, 0, request.keep + n_discard, n_past, -n_discard)
                n_past -= n_discard
            logits = feed(made, (0, n_past, np.array(found[-1:], np.int32)))[0]
            n_past, found = n_past + 1, [*found, int(logits.argmax())]
    return found


@pytest.mark.parametrize("kind", ["llama", "mamba", "jamba"])
@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_three_contexts_of_output_are_those_of_a_loop_by_hand(kinds: dict[str, Model], kind: str, kv_mode: str) -> None:
    requests = [long_request(), long_request("other", prompt=30, keep=0), long_request("short", max_tokens=20)]
    with llama_engine(kinds[kind], cells_per_seq=CELLS, ubatch=64, kv_mode=kv_mode, **EXACT) as (engine, _):
        outputs = answer(engine, requests)
    for request in requests:
        output = outputs[request.id]
        assert output.finish_reason is FinishReason.LENGTH
        assert output.token_ids.tolist() == by_hand(kinds[kind], request)
    assert outputs["long"].dropped_tokens > 2 * CELLS
    assert outputs["short"].dropped_tokens == 0


def test_positions_go_on_from_what_is_left(kinds: dict[str, Model]) -> None:
    with llama_engine(kinds["llama"], cells_per_seq=CELLS, **EXACT) as (engine, runner):
        engine.add(long_request())
        last = 0
        while engine.step() == []:
            first, previous, last = runner.context.seq_range(0)[0], last, runner.context.seq_range(0)[1]
            assert first == 0
            assert last in (previous + 1, 99, CELLS - 1 - (CELLS - 3) // 2 + 1)


def test_a_recurrent_model_forgets_nothing_by_it(kinds: dict[str, Model]) -> None:
    request = long_request()
    with llama_engine(kinds["mamba"], cells_per_seq=CELLS, **EXACT) as (engine, _):
        shifted = answer(engine, [request])
    with llama_engine(kinds["mamba"], cells_per_seq=1024, **EXACT) as (engine, _):
        whole = answer(engine, [replace(request, max_cells=None)])
    assert shifted["long"].token_ids.tolist() == whole["long"].token_ids.tolist()


@pytest.mark.parametrize("kind", ["llama", "mamba", "jamba"])
@pytest.mark.parametrize("preempt", ["swap", "recompute"])
def test_preemption_changes_no_token(kinds: dict[str, Model], kind: str, preempt: str) -> None:
    low = replace(long_request(max_tokens=2 * CELLS), priority=1)
    scheduler = {"preempt": preempt}
    options: dict[str, Any] = {"max_num_seqs": 1, "cells_per_seq": CELLS, "scheduler": scheduler, **EXACT}
    with llama_engine(kinds[kind], **options) as (engine, _):
        undisturbed = answer(engine, [low])["long"]
    with llama_engine(kinds[kind], **options) as (engine, _):
        engine.add(low)
        outputs, step = {}, 0
        while engine.has_work:
            outputs.update({output.id: output for output in engine.step()})
            engine.check_integrity()
            step += 1
            if step % 50 == 0 and "long" not in outputs:
                engine.add(Request(f"high {step}", text(5), SamplingParams(max_tokens=2)))
    assert outputs["long"].preemptions > 5
    assert outputs["long"].token_ids.tolist() == undisturbed.token_ids.tolist()


@pytest.mark.parametrize(
    ("kv_type", "flash_attn"),
    [("f32", "off"), *((name, "on") for name in ("f16", "f16/bf16", "q8_0", "q5_1", "q4_0", "iq4_nl"))],
)
def test_neighbours_keep_their_kv(tmp_path: Path, kv_type: str, flash_attn: str) -> None:
    """llama.cpp rotates all keys of the cache at a shift, those of others by nothing."""
    with (
        Model(ModelConfig(write_tiny(tmp_path / "wide.gguf", width=256))) as wide,
        context(wide, kv_type=kv_type, flash_attn=flash_attn) as made,
    ):
        assert shift_obstacle(made) is None
        for slot in (0, 1):
            prefill(made, slot, text(100, seed=slot))
        before = save(made, 1)
        assert made.shift(0, 10, 40)
        feed(made, (0, 60, text(1)))
        after = save(made, 1)
        assert before is not None
        assert after is not None
        assert np.array_equal(before.data, after.data)


def test_what_cannot_be_shifted(kinds: dict[str, Model], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for cells in (256, 512):  # with as many cells as windows have, the library would try
        with context(kinds["gemma3"], cells_per_seq=cells) as made:
            assert "windows" in (shift_obstacle(made) or "")
    with context(kinds["llama"], kv_type="bf16") as made:
        assert "--kv-type f16/bf16" in (shift_obstacle(made) or "")
    for kind in ("mamba", "jamba"):  # without rotated keys their type doesn't matter
        with context(kinds[kind], kv_type="bf16") as made:
            assert shift_obstacle(made) is None
    plain = tiny_llama.add_metadata

    def add_yarn(writer: gguf.GGUFWriter, width: int) -> None:
        plain(writer, width)
        writer.add_rope_scaling_type(gguf.RopeScalingType.YARN)
        writer.add_rope_scaling_factor(4.0)
        writer.add_rope_scaling_orig_ctx_len(512)

    monkeypatch.setattr(tiny_llama, "add_metadata", add_yarn)
    with Model(ModelConfig(write_tiny(tmp_path / "yarn.gguf"))) as yarn, context(yarn) as made:
        assert "YaRN" in (shift_obstacle(made) or "")


def test_keys_are_kept_in_a_type_that_can_be_shifted(kinds: dict[str, Model]) -> None:
    assert kv_types(kinds["llama"], ContextConfig(shifts=True)) == ("f16", "bf16")
    assert kv_types(kinds["llama"], ContextConfig()) == ("bf16", "bf16")
    assert kv_types(kinds["llama"], ContextConfig(shifts=True, kv_type="q8_0")) == ("q8_0", "q8_0")
