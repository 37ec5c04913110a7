"""Writes tiny models and LoRA adapters to files."""

from __future__ import annotations

from pathlib import Path
from types import ModuleType

import gguf
import numpy as np
import numpy.typing as npt

from cbatch.llama.tiny import gemma3, jamba, llama, mamba
from cbatch.llama.tiny.vocabulary import CHATML, add_vocabulary
from cbatch.llama.tiny.weights import WIDTH, Weights, normal, width_for

KINDS: dict[str, ModuleType] = {"llama": llama, "gemma3": gemma3, "mamba": mamba, "jamba": jamba}
"""By the name of the architecture: full attention, sliding windows, recurrent, and a hybrid."""


def write_tiny(
    path: Path,
    *,
    kind: str = "llama",
    weight_type: str = "F32",
    width: int | None = None,
    seed: int = 0,
    chat_template: str | None = CHATML,
    add_bos: bool = True,
) -> Path:
    """Write a model of a few layers to `path` and return it.

    Args:
        path: where to write; its folder must exist.
        kind: one of `KINDS`.
        weight_type: ggml type of every matrix (`F32`, `Q4_0`, `Q6_K`, ...) of a llama; the others are `F32`. Types
            that `gguf` can't quantise get all-zero blocks: the kernels run, the logits are zero.
        width: of the embedding, a multiple of 64; None is the least that the weight type allows. Heads have a
            quarter of it.
        seed: of the weights.
        chat_template: Jinja source; None leaves it out.
        add_bos: whether the tokenizer adds BOS.
    """
    if kind != "llama" and weight_type != "F32":
        raise ValueError(f"weight_type is {weight_type}: a tiny {kind} has F32 weights, for llama.cpp wants some so")
    quant = gguf.GGMLQuantizationType[weight_type]
    if width is None:
        width = width_for(weight_type)
    writer = gguf.GGUFWriter(path, kind)
    KINDS[kind].add_metadata(writer, width)
    add_vocabulary(writer, add_bos)
    if chat_template is not None:
        writer.add_chat_template(chat_template)
    for name, weights in KINDS[kind].tensors(np.random.default_rng(seed), width).items():
        if weights.ndim == 1:
            writer.add_tensor(name, weights)
        else:
            writer.add_tensor(name, _encode(weights, quant), raw_dtype=quant)
    return _finish(writer, path)


def write_tiny_lora(path: Path, *, width: int = WIDTH, rank: int = 4, alpha: float = 8.0, seed: int = 0) -> Path:
    """Write a LoRA adapter for the query projections of a tiny llama of that width, and return `path`."""
    rng = np.random.default_rng(seed)
    writer = gguf.GGUFWriter(path, "llama")
    writer.add_type(gguf.GGUFType.ADAPTER)
    writer.add_string("adapter.type", "lora")
    writer.add_float32("adapter.lora.alpha", alpha)
    for layer in range(llama.N_LAYERS):
        writer.add_tensor(f"blk.{layer}.attn_q.weight.lora_a", normal(rng, rank, width, gain=1.0))
        writer.add_tensor(f"blk.{layer}.attn_q.weight.lora_b", normal(rng, width, rank, gain=1.0))
    return _finish(writer, path)


def _encode(weights: Weights, quant: gguf.GGMLQuantizationType) -> npt.NDArray[np.generic]:
    """`weights` in the bytes of `quant`, or zero blocks where `gguf` can't quantise to it."""
    try:
        encoded: npt.NDArray[np.generic] = gguf.quants.quantize(weights, quant)
    except NotImplementedError:
        block, size = gguf.GGML_QUANT_SIZES[quant]
        encoded = np.zeros((weights.shape[0], weights.shape[1] // block * size), np.uint8)
    return encoded


def _finish(writer: gguf.GGUFWriter, path: Path) -> Path:
    writer.write_header_to_file()
    writer.write_kv_data_to_file()
    writer.write_tensors_to_file()
    writer.close()
    return path
