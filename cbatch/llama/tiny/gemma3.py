"""A gemma3: three of four layers see only a window of the last tokens, so the cells before it are given up."""

from __future__ import annotations

import gguf
import numpy as np

from cbatch.llama.tiny.weights import N_HEADS, N_KV_HEADS, Tensors, add_sizes, attention, ends, feed_forward

N_LAYERS = 4
WINDOW = 32
WINDOWED = (True, True, False, True)
"""Layer by layer: whether it sees the window only."""


def add_metadata(writer: gguf.GGUFWriter, width: int) -> None:
    add_sizes(writer, width, N_LAYERS)
    writer.add_feed_forward_length(width)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_KV_HEADS)
    writer.add_key_length(width // N_HEADS)
    writer.add_value_length(width // N_HEADS)
    writer.add_sliding_window(WINDOW)
    writer.add_sliding_window_pattern(WINDOWED)


def tensors(rng: np.random.Generator, width: int) -> Tensors:
    """All weights by name. The architecture multiplies its embeddings by sqrt(width)."""
    found = ends(rng, width, embedding_gain=width**-0.5)
    for layer in range(N_LAYERS):
        block = f"blk.{layer}"
        found |= attention(rng, block, width) | feed_forward(rng, block, width)
        for name in ("attn_q_norm", "attn_k_norm"):  # their product is how sharp attention is
            found[f"{block}.{name}.weight"] = np.full(width // N_HEADS, 1.5, np.float32)
        for name in ("post_attention_norm", "post_ffw_norm"):
            found[f"{block}.{name}.weight"] = np.ones(width, np.float32)
    return found
