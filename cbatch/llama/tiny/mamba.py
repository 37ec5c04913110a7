"""A mamba: no cells, but a state of fixed size that each token changes (Gu and Dao 2023)."""

from __future__ import annotations

import gguf
import numpy as np

from cbatch.llama.tiny.weights import Tensors, add_sizes, ends, normal

N_LAYERS = 3
CONV_KERNEL = 4
STATE = 16
"""Elements of the state of each inner channel."""
TIME_STEP_RANK = 4


def add_metadata(writer: gguf.GGUFWriter, width: int) -> None:
    add_sizes(writer, width, N_LAYERS)
    writer.add_feed_forward_length(0)
    writer.add_head_count(0)
    add_state_sizes(writer, width)


def add_state_sizes(writer: gguf.GGUFWriter, width: int) -> None:
    writer.add_ssm_conv_kernel(CONV_KERNEL)
    writer.add_ssm_inner_size(2 * width)  # the only expansion that llama.cpp knows
    writer.add_ssm_state_size(STATE)
    writer.add_ssm_time_step_rank(TIME_STEP_RANK)


def tensors(rng: np.random.Generator, width: int) -> Tensors:
    """All weights by name."""
    found = ends(rng, width)
    for layer in range(N_LAYERS):
        found |= mixer(rng, f"blk.{layer}", width)
    return found


def mixer(rng: np.random.Generator, block: str, width: int) -> Tensors:
    """What stands where attention stands in a transformer. Its state forgets within 2 to 100 tokens."""
    inner = 2 * width
    rates = np.broadcast_to(np.arange(1, STATE + 1, dtype=np.float32), (inner, STATE))
    return {
        f"{block}.attn_norm.weight": np.ones(width, np.float32),
        f"{block}.ssm_in.weight": normal(rng, 2 * inner, width, gain=1.5),
        f"{block}.ssm_conv1d.weight": normal(rng, inner, CONV_KERNEL, gain=1.5),
        f"{block}.ssm_conv1d.bias": np.zeros(inner, np.float32),
        f"{block}.ssm_x.weight": normal(rng, TIME_STEP_RANK + 2 * STATE, inner, gain=2.0),
        f"{block}.ssm_dt.weight": normal(rng, inner, TIME_STEP_RANK, gain=0.5),
        f"{block}.ssm_dt.bias": rng.uniform(-4, -1, inner).astype(np.float32),
        f"{block}.ssm_a": -np.ascontiguousarray(rates),
        f"{block}.ssm_d": np.ones(inner, np.float32),
        f"{block}.ssm_out.weight": normal(rng, width, inner, gain=1.5),
    }
