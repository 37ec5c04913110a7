"""Which weights llama.cpp copies into a layout of its kernels, beside the mapped file. From types and shapes; it knows
the rules of ggml's AMX and interleaving kernels (amx.cpp and repack.cpp), not KleidiAI's or RISC-V's.
"""

from __future__ import annotations

from collections.abc import Iterable

from cbatch.llama.gguf_header import GgufTensor

# Bytes of a packed block / bytes of a block, and elements that a row has a multiple of.
_AMX: dict[str, tuple[float, int]] = {
    "F16": (1, 16),
    "Q4_0": (1, 32),
    "Q4_1": (1, 32),
    "Q8_0": (38 / 34, 32),
    "Q4_K": (148 / 144, 256),
    "Q5_K": (180 / 176, 256),
    "Q6_K": (1, 256),
    "IQ4_XS": (138 / 136, 256),
}
# Features of which one is needed. The copies are as large as the weights.
_INTERLEAVED = {
    "Q4_0": {"AVX2", "DOTPROD"},
    "Q4_K": {"AVX2", "DOTPROD"},
    "IQ4_NL": {"AVX2", "DOTPROD"},
    "MXFP4": {"AVX2", "DOTPROD"},
    "Q2_K": {"AVX512"},
    "Q5_K": {"DOTPROD"},
    "Q6_K": {"DOTPROD"},
    "Q8_0": {"DOTPROD"},
    "Q1_0": {"DOTPROD"},
}
_LOOKED_UP = ("token_embd.weight", "per_layer_token_embd.weight", "position_embd.weight")
"""Matrices of which rows are taken, not products."""
_OUTPUT, _EMBEDDING = "output.weight", "token_embd.weight"


def weight_bytes(tensors: Iterable[GgufTensor], features: frozenset[str]) -> tuple[int, int]:
    """Bytes of the weights that are computed with where the file is mapped, and of those that are copied.

    `features` are the library's, by ggml's names; none where no weights are to be repacked.
    """
    tensors = list(tensors)
    mapped = copied = 0.0
    tied = all(tensor.name != _OUTPUT for tensor in tensors)
    for tensor in tensors:
        growth = _growth(tensor, features)
        looked_up = tensor.name in _LOOKED_UP
        if growth is None or looked_up:
            mapped += tensor.bytes
        if growth is not None and (not looked_up or (tied and tensor.name == _EMBEDDING)):
            copied += tensor.bytes * growth
    return round(mapped), round(copied)


def _growth(tensor: GgufTensor, features: frozenset[str]) -> float | None:
    """Bytes of a copy / bytes in the file, for a tensor that is multiplied with; None where it isn't copied."""
    elements, rows, experts, _ = tensor.shape
    if rows == 1:
        return None
    if "AMX_INT8" in features and tensor.type in _AMX and experts == 1:
        growth, block = _AMX[tensor.type]
        if elements % block == 0 and rows % 32 == 0:
            return growth
    interleaved = "REPACK" in features and bool(_INTERLEAVED.get(tensor.type, set()) & features)
    return 1 if interleaved and rows % 8 == 0 else None
