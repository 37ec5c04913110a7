"""Random weights of the blocks that tiny models are made of, and sizes that they share.

The gains make attention sharp and logits well apart (standard deviation about 2.5).
"""

from __future__ import annotations

import gguf
import numpy as np
import numpy.typing as npt

from cbatch.llama.tiny.vocabulary import N_VOCAB

N_HEADS = 4
N_KV_HEADS = 2
N_CTX = 2048
WIDTH = 64
_WIDTH_OF_SUPERBLOCKS = 256

Weights = npt.NDArray[np.float32]
Tensors = dict[str, Weights]


def width_for(weight_type: str) -> int:
    """Embedding width of the tiny model: rows must be whole blocks, of 256 weights in the K- and I-quants."""
    block, _ = gguf.GGML_QUANT_SIZES[gguf.GGMLQuantizationType[weight_type]]
    return WIDTH if WIDTH % block == 0 else _WIDTH_OF_SUPERBLOCKS


def add_sizes(writer: gguf.GGUFWriter, width: int, layers: int) -> None:
    """The metadata that every architecture has."""
    writer.add_type(gguf.GGUFType.MODEL)
    writer.add_name("cbatch tiny")
    writer.add_context_length(N_CTX)
    writer.add_embedding_length(width)
    writer.add_block_count(layers)
    writer.add_layer_norm_rms_eps(1e-5)
    writer.add_vocab_size(N_VOCAB)


def ends(rng: np.random.Generator, width: int, *, embedding_gain: float = 1.0) -> Tensors:
    """What comes before the first layer and after the last; embedded tokens have the RMS `embedding_gain`."""
    return {
        "token_embd.weight": normal(rng, N_VOCAB, width, gain=embedding_gain * width**0.5),
        "output_norm.weight": np.ones(width, np.float32),
        "output.weight": normal(rng, N_VOCAB, width, gain=2.5),
    }


def attention(rng: np.random.Generator, block: str, width: int) -> Tensors:
    kv_width = width // N_HEADS * N_KV_HEADS
    return {
        f"{block}.attn_norm.weight": np.ones(width, np.float32),
        f"{block}.attn_q.weight": normal(rng, width, width, gain=1.5),
        f"{block}.attn_k.weight": normal(rng, kv_width, width, gain=1.5),
        f"{block}.attn_v.weight": normal(rng, kv_width, width, gain=2.0),
        f"{block}.attn_output.weight": normal(rng, width, width, gain=1.0),
    }


def feed_forward(rng: np.random.Generator, block: str, width: int) -> Tensors:
    return {
        f"{block}.ffn_norm.weight": np.ones(width, np.float32),
        f"{block}.ffn_gate.weight": normal(rng, width, width, gain=1.5),
        f"{block}.ffn_up.weight": normal(rng, width, width, gain=1.5),
        f"{block}.ffn_down.weight": normal(rng, width, width, gain=1.0),
    }


def normal(rng: np.random.Generator, rows: int, columns: int, *, gain: float) -> Weights:
    """float32[rows, columns] that maps a vector of unit RMS to one of RMS `gain`."""
    return rng.normal(0, gain / columns**0.5, (rows, columns)).astype(np.float32)
