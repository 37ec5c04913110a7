"""What models keep of a sequence, from metadata as published models have it."""

from __future__ import annotations

import pytest

from cbatch.llama.memory_kind import (
    ATTENTION,
    HYBRID,
    RECURRENT,
    SLIDING_WINDOW,
    AttentionLayer,
    ModelMemory,
    Numbers,
    model_memory,
)
from cbatch.llama.model import Model
from cbatch.llama.tiny import gemma3, jamba, mamba

LLAMA_70B: Numbers = {
    "block_count": (80,),
    "embedding_length": (8192,),
    "attention.head_count": (64,),
    "attention.head_count_kv": (8,),
}


def memory(
    architecture: str, numbers: Numbers, *, recurrent: bool = False, hybrid: bool = False, window: int = 0
) -> ModelMemory:
    return model_memory(architecture, numbers, recurrent=recurrent, hybrid=hybrid, window=window)


def test_llama_70b_takes_327680_bytes_a_token() -> None:
    found = memory("llama", LLAMA_70B)
    assert (found.kind, found.cuts, found.has_state, found.state_bytes) == (ATTENTION, True, False, 0)
    assert found.layers == (AttentionLayer(8, 128, 128, False),) * 80
    assert found.bytes_per_token("f16", "f16") == 327_680
    assert found.bytes_per_token("q8_0", "f16") == 80 * 8 * 128 * (34 / 32 + 2)


def test_without_kv_heads_every_head_has_its_own() -> None:
    numbers = {key: value for key, value in LLAMA_70B.items() if key != "attention.head_count_kv"}
    assert memory("llama", numbers).layers[0] == AttentionLayer(64, 128, 128, False)


def test_heads_may_have_lengths_of_their_own() -> None:
    found = memory("qwen3", {**LLAMA_70B, "attention.key_length": (96,), "attention.value_length": (64,)})
    assert found.layers[0] == AttentionLayer(8, 96, 64, False)


def test_heads_may_differ_by_layer() -> None:
    numbers = {**LLAMA_70B, "block_count": (3,), "attention.head_count_kv": (8, 0, 4)}
    assert [layer.heads for layer in memory("deci", numbers).layers] == [8, 4]


def test_latent_attention_keeps_no_v() -> None:
    deepseek = {
        "block_count": (61,),
        "embedding_length": (7168,),
        "attention.head_count": (128,),
        "attention.head_count_kv": (1,),
        "attention.key_length": (576,),
        "attention.value_length": (512,),
        "attention.key_length_mla": (192,),
    }
    assert memory("deepseek2", deepseek).bytes_per_token("f16", "f16") == 61 * 576 * 2


def test_layers_that_only_predict_further_tokens_keep_nothing() -> None:
    numbers = {**LLAMA_70B, "block_count": (81,), "nextn_predict_layers": (1,)}
    assert len(memory("glm4moe", numbers).layers) == 80


GEMMA3_1B: Numbers = {
    "block_count": (26,),
    "embedding_length": (1152,),
    "attention.head_count": (4,),
    "attention.head_count_kv": (1,),
    "attention.key_length": (256,),
    "attention.value_length": (256,),
    "attention.sliding_window": (512,),
}


def test_gemma3_looks_at_everything_in_every_sixth_layer() -> None:
    found = memory("gemma3", GEMMA3_1B, window=512)
    assert (found.kind, found.cuts, found.window) == (SLIDING_WINDOW, False, 512)
    assert [i for i, layer in enumerate(found.layers) if not layer.windowed] == [5, 11, 17, 23]
    assert found.bytes_per_token("f16", "f16", windowed=False) == 4 * 1024
    assert found.bytes_per_token("f16", "f16", windowed=True) == 22 * 1024
    assert found.bytes_per_token("f16", "f16") == 26 * 1024


@pytest.mark.parametrize(
    ("architecture", "pattern", "full"),
    [
        ("gemma3", (3,), [2, 5]),
        ("gemma3", (1, 0, 1, 1, 0, 1), [1, 4]),
        ("gpt-oss", (), [1, 3, 5]),
        ("unheard-of", (), [0, 1, 2, 3, 4, 5]),  # more than it may keep, never less
        ("lfm2", (0,), []),
    ],
)
def test_patterns_of_windows(architecture: str, pattern: tuple[int, ...], full: list[int]) -> None:
    numbers = {**GEMMA3_1B, "block_count": (6,)}
    if pattern:
        numbers["attention.sliding_window_pattern"] = pattern
    found = memory(architecture, numbers, window=512)
    assert [i for i, layer in enumerate(found.layers) if not layer.windowed] == full


def test_windowed_layers_may_have_other_heads_and_late_layers_none() -> None:
    numbers = {
        **GEMMA3_1B,
        "attention.key_length": (512,),
        "attention.key_length_swa": (256,),
        "attention.value_length_swa": (128,),
        "attention.sliding_window_pattern": (2,),
        "attention.shared_kv_layers": (20,),
    }
    layers = memory("gemma4", numbers, window=512).layers
    assert len(layers) == 6
    assert layers[:2] == (AttentionLayer(1, 256, 128, True), AttentionLayer(1, 512, 256, False))


def test_mamba_130m_has_a_state_and_no_cells() -> None:
    numbers = {
        "block_count": (24,),
        "embedding_length": (768,),
        "ssm.conv_kernel": (4,),
        "ssm.inner_size": (1536,),
        "ssm.state_size": (16,),
    }
    found = memory("mamba", numbers, recurrent=True)
    assert (found.kind, found.cuts, found.has_state, found.layers) == (RECURRENT, False, True, ())
    assert found.state_bytes == 24 * (3 * 1536 + 16 * 1536) * 4
    assert found.bytes_per_token("f16", "f16") == 0


@pytest.mark.parametrize(
    ("architecture", "numbers", "attention", "state"),
    [
        # LFM2-1.2B: short convolutions of 3, attention where there are KV heads
        (
            "lfm2",
            {
                "attention.head_count_kv": (0, 0, 8, 0, 0, 8, 0, 0, 8, 0, 8, 0, 8, 0, 8, 0),
                "shortconv.l_cache": (3,),
                "feed_forward_length": (8192,),
            },
            6,
            10 * 2 * 2048,
        ),
        # every fourth layer attends
        (
            "qwen3next",
            {
                "attention.head_count_kv": (2,),
                "full_attention_interval": (4,),
                "ssm.conv_kernel": (4,),
                "ssm.inner_size": (4096,),
                "ssm.state_size": (128,),
                "ssm.group_count": (16,),
            },
            4,
            12 * (3 * (4096 + 2 * 16 * 128) + 128 * 4096),
        ),
        # a state, attention or a feed-forward network, each in layers of its own
        (
            "nemotron_h",
            {
                "attention.head_count_kv": (0, 0, 8, 0) * 4,
                "feed_forward_length": (0, 64, 0, 0) * 4,
                "ssm.conv_kernel": (4,),
                "ssm.inner_size": (100,),
                "ssm.state_size": (10,),
            },
            4,
            8 * (300 + 1000),
        ),
        # both in every layer
        (
            "falcon-h1",
            {
                "attention.head_count_kv": (2,),
                "ssm.conv_kernel": (4,),
                "ssm.inner_size": (100,),
                "ssm.state_size": (10,),
            },
            16,
            16 * (300 + 1000),
        ),
    ],
)
def test_hybrids_have_cells_in_some_layers(architecture: str, numbers: Numbers, attention: int, state: int) -> None:
    common = {"block_count": (16,), "embedding_length": (2048,), "attention.head_count": (32,)}
    found = memory(architecture, {**common, **numbers}, hybrid=True)
    assert (found.kind, found.cuts, found.has_state) == (HYBRID, False, True)
    assert len(found.layers) == attention
    assert found.state_bytes == 4 * state


def test_rwkv_has_a_state() -> None:
    numbers = {"block_count": (24,), "embedding_length": (2048,), "wkv.head_size": (64,), "token_shift_count": (2,)}
    assert memory("rwkv7", numbers, recurrent=True).state_bytes == 24 * 2048 * (2 + 64) * 4


def test_the_library_and_the_file_say_it_of_the_tiny_models(kinds: dict[str, Model]) -> None:
    found = {kind: model.memory for kind, model in kinds.items()}
    assert [m.kind for m in found.values()] == [ATTENTION, SLIDING_WINDOW, RECURRENT, HYBRID]
    assert found["gemma3"].window == gemma3.WINDOW
    assert tuple(layer.windowed for layer in found["gemma3"].layers) == gemma3.WINDOWED
    assert len(found["jamba"].layers) == sum(heads > 0 for heads in jamba.KV_HEADS)
    per_layer = 4 * 128 * (mamba.CONV_KERNEL - 1 + mamba.STATE)
    assert found["mamba"].state_bytes == mamba.N_LAYERS * per_layer
    assert found["jamba"].state_bytes == 2 * per_layer


def test_smollm2(smollm2: Model) -> None:
    assert smollm2.memory.kind == ATTENTION
    assert smollm2.memory.bytes_per_token("f16", "f16") == 30 * 3 * 64 * 2 * 2
