"""Types of K and V: every one that may be used computes, every one that may not is refused with the way out."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest
from gguf import GGML_QUANT_SIZES, GGMLQuantizationType

from cbatch.config import KV_TYPES, ContextConfig, ModelConfig
from cbatch.errors import UsageError
from cbatch.llama.kv_types import BYTES_PER_ELEMENT, check_kv_types
from cbatch.llama.memory_kind import ATTENTION, AttentionLayer, ModelMemory
from cbatch.llama.model import Model
from cbatch.llama.resolve import resolve_context
from cbatch.llama.tiny import write_tiny
from tests.llama.feeding import context, follow, prefill, text


@pytest.fixture(scope="module")
def wide(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Model]:
    """With heads of 64, two blocks of the quantised types."""
    with Model(ModelConfig(write_tiny(tmp_path_factory.mktemp("wide") / "wide.gguf", width=256))) as model:
        yield model


def test_sizes_are_those_of_ggml() -> None:
    assert BYTES_PER_ELEMENT.keys() == set(KV_TYPES)
    for name, size in BYTES_PER_ELEMENT.items():
        block, block_bytes = GGML_QUANT_SIZES[GGMLQuantizationType[name.upper()]]
        assert size == block_bytes / block


@pytest.mark.parametrize(
    ("kv_type", "flash_attn", "close"),
    [
        ("f16", "off", 0.01),
        ("f16", "on", 0.01),
        ("bf16", "off", 0.05),
        ("bf16", "on", 0.05),
        ("q8_0/f16", "off", 0.1),
        ("q8_0", "on", 0.1),
        ("q8_0", "auto", 0.1),
        ("q4_0/bf16", "off", 1.0),
        ("q4_0", "on", 1.0),
    ],
)
def test_each_type_computes_what_f32_computes_but_for_its_rounding(
    wide: Model, kv_type: str, flash_attn: str, close: float
) -> None:
    """Root mean squares of differences between logits whose standard deviation is 2.5."""
    tokens = text(40, seed=1)
    with context(wide) as exact, context(wide, kv_type=kv_type, flash_attn=flash_attn) as rounded:
        for made in (exact, rounded):
            prefill(made, 0, text(80))
        differences = follow(exact, 0, tokens, start=80) - follow(rounded, 0, tokens, start=80)
    assert 0 < np.sqrt((differences**2).mean()) < close


@pytest.mark.parametrize(
    ("kv_type", "flash_attn", "message"),
    [
        (
            "q8_0",
            "off",
            r"q8_0/q8_0: a quantised V needs flash attention; give --flash-attn on, or --kv-type q8_0/bf16",
        ),
        ("f16/q4_0", "off", r"f16/q4_0: a quantised V needs flash attention.*--kv-type f16/bf16"),
        ("q8_0", "on", r"q8_0 keeps blocks of 32 elements, and this model's K heads have 16: give --kv-type bf16"),
        ("f16/q8_0", "on", r"this model's V heads have 16"),
        ("q8_0/f16", "off", r"this model's K heads have 16"),  # the library takes it, and gives nonsense
    ],
)
def test_types_that_a_model_cannot_have_are_refused(tiny: Model, kv_type: str, flash_attn: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        resolve_context(tiny, ContextConfig(kv_type=kv_type, flash_attn=flash_attn))


def test_k_and_v_kept_as_one_have_one_type() -> None:
    memory = ModelMemory(ATTENTION, 0, (AttentionLayer(1, 576, 0, False),), 0)
    check_kv_types(memory, "q8_0", "q8_0", "on")
    with pytest.raises(UsageError, match="K and V as one"):
        check_kv_types(memory, "q8_0", "bf16", "on")


def test_a_recurrent_model_has_no_heads_to_fit(kinds: dict[str, Model]) -> None:
    assert resolve_context(kinds["mamba"], ContextConfig(kv_type="q8_0", flash_attn="on")).type_k == "q8_0"


def test_defaults_can_be_had_by_every_kind(kinds: dict[str, Model], tmp_path: Path) -> None:
    for model in kinds.values():
        with context(model, kv_type=None, flash_attn=None) as made:
            assert np.isfinite(prefill(made, 0, text(70))).all()
