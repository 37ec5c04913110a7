"""A jamba: layers with a state of fixed size, and between them one with attention over cells."""

from __future__ import annotations

import gguf
import numpy as np

from cbatch.llama.tiny import mamba
from cbatch.llama.tiny.weights import N_HEADS, N_KV_HEADS, Tensors, add_sizes, attention, ends, feed_forward

KV_HEADS = (0, N_KV_HEADS, 0)
"""Layer by layer: those of attention, or 0 where a state is kept."""


def add_metadata(writer: gguf.GGUFWriter, width: int) -> None:
    add_sizes(writer, width, len(KV_HEADS))
    writer.add_feed_forward_length(width)
    writer.add_head_count(N_HEADS)
    writer.add_head_count_kv(KV_HEADS)
    mamba.add_state_sizes(writer, width)


def tensors(rng: np.random.Generator, width: int) -> Tensors:
    """All weights by name."""
    found = ends(rng, width)
    for layer, heads in enumerate(KV_HEADS):
        block = f"blk.{layer}"
        found |= attention(rng, block, width) if heads else _mixer(rng, block, width)
        found |= feed_forward(rng, block, width)
    return found


def _mixer(rng: np.random.Generator, block: str, width: int) -> Tensors:
    norms = {"ssm_dt_norm": mamba.TIME_STEP_RANK, "ssm_b_norm": mamba.STATE, "ssm_c_norm": mamba.STATE}
    return mamba.mixer(rng, block, width) | {
        f"{block}.{name}.weight": np.ones(size, np.float32) for name, size in norms.items()
    }
