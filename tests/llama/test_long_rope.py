"""Models that rotate keys by other factors in contexts beyond their original one (LongRoPE): no key serves both."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import gguf
import numpy as np
import pytest

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.snapshot import restore, save
from cbatch.llama.tiny import llama, write_tiny
from cbatch.llama.tiny.weights import N_HEADS, Tensors
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.llama.feeding import context, prefill, text
from tests.llama.running import answer, llama_engine

ORIGINAL = 256
EXACT: dict[str, Any] = {"kv_type": "f32", "flash_attn": "off"}
"""Arithmetic that doesn't depend on the shape of a batch."""


def write_long_rope(path: Path) -> Path:
    """Write it to `path` and return that."""
    add_metadata, tensors = llama.add_metadata, llama.tensors

    def add_scaling(writer: gguf.GGUFWriter, width: int) -> None:
        add_metadata(writer, width)
        writer.add_rope_scaling_type(gguf.RopeScalingType.LONGROPE)
        writer.add_rope_scaling_orig_ctx_len(ORIGINAL)

    def with_factors(rng: np.random.Generator, width: int) -> Tensors:
        factors = np.ones(width // N_HEADS // 2, np.float32)
        return tensors(rng, width) | {"rope_factors_short.weight": factors, "rope_factors_long.weight": 4 * factors}

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(llama, "add_metadata", add_scaling)
        patch.setattr(llama, "tensors", with_factors)
        return write_tiny(path)


@pytest.fixture
def long_rope(tmp_path: Path) -> Iterator[Model]:
    with Model(ModelConfig(write_long_rope(tmp_path / "m.gguf"))) as model:
        yield model


def test_keys_that_were_rotated_by_other_factors_are_refused(long_rope: Model) -> None:
    assert long_rope.n_ctx_original == ORIGINAL
    with context(long_rope, cells_per_seq=ORIGINAL) as made:
        prefill(made, 0, text(100))
        short = save(made, 0)
        assert short is not None
        assert restore(made, 1, short)
    with context(long_rope, cells_per_seq=2 * ORIGINAL) as made:
        prefill(made, 1, text(50))
        assert not restore(made, 1, short)
        assert made.seq_range(1) == (-1, -1)
        prefill(made, 0, text(100))
        long = save(made, 0)
        assert long is not None
    with context(long_rope, cells_per_seq=3 * ORIGINAL) as made:
        assert restore(made, 1, long)


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_prefixes_are_computed_again_where_a_larger_context_rotates_keys_otherwise(
    long_rope: Model, kv_mode: str
) -> None:
    prefix = np.random.default_rng(1).integers(0, 256, 150).astype(np.int32)
    scheduler = {"prefix_cache_bytes": 1 << 24, "keep_prefixes": True}

    def row(name: str) -> Request:
        prompt = np.concatenate([prefix, np.frombuffer(name.encode(), np.uint8).astype(np.int32)])
        return Request(name, prompt, SamplingParams(max_tokens=20, temperature=0.0))

    def tokens(cells: int) -> list[int]:
        with llama_engine(long_rope, max_num_seqs=1, cells_per_seq=cells, kv_mode=kv_mode, **EXACT) as (engine, _):
            return list(answer(engine, [row("second")])["second"].token_ids)

    options: dict[str, Any] = {"max_num_seqs": 1, "kv_mode": kv_mode, "scheduler": scheduler, **EXACT}
    with llama_engine(long_rope, max_cells=2 * ORIGINAL, cells_per_seq=ORIGINAL, **options) as (engine, runner):
        first, again = (answer(engine, [row(name)])[name] for name in ("first", "again"))
        long = Request("long", np.full(300, 66, np.int32), SamplingParams(max_tokens=4))
        assert answer(engine, [long])["long"].error is None
        assert runner.capacity.cells_per_seq == 2 * ORIGINAL
        second, third = (answer(engine, [row(name)])[name] for name in ("second", "third"))
    assert list(second.token_ids) == tokens(2 * ORIGINAL) != tokens(ORIGINAL)
    assert [each.cached_tokens for each in (first, again, second, third)] == [0, 150, 0, 150]
