"""A llama: full attention in every layer."""

from __future__ import annotations

import gguf
import numpy as np

from cbatch.llama.tiny.weights import N_HEADS, N_KV_HEADS, Tensors, add_sizes, attention, ends, feed_forward

N_LAYERS = 2


def add_metadata(writer: gguf.GGUFWriter, width: int) -> None:
    add_sizes(writer, width, N_LAYERS)
    writer.add_feed_forward_length(width)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(N_KV_HEADS)
    writer.add_rope_dimension_count(width // N_HEADS)


def tensors(rng: np.random.Generator, width: int) -> Tensors:
    """All weights by name."""
    found = ends(rng, width)
    for layer in range(N_LAYERS):
        found |= attention(rng, f"blk.{layer}", width) | feed_forward(rng, f"blk.{layer}", width)
    return found
