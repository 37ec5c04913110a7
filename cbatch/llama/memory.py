"""How much KV memory a context takes, and what fits this machine. Estimates only; the library has the last word."""

from __future__ import annotations

from dataclasses import replace

from cbatch.config import ContextConfig, padded
from cbatch.llama import machine
from cbatch.llama.context import kv_types
from cbatch.llama.lib import C
from cbatch.llama.model import Model

_BYTES_PER_ELEMENT = {
    "f32": 4.0,
    "f16": 2.0,
    "bf16": 2.0,
    "q8_0": 34 / 32,
    "q5_1": 24 / 32,
    "q5_0": 22 / 32,
    "q4_1": 20 / 32,
    "q4_0": 18 / 32,
    "iq4_nl": 18 / 32,
}
"""ggml's block sizes: bytes of a block / elements of a block."""
KV_SHARE = 0.6
"""Of the memory that is available, the most that KV may take; the rest is for compute buffers and everybody else."""


def kv_bytes_per_cell(model: Model, config: ContextConfig) -> float:
    """Bytes of K and V that one token fills over all layers, were every layer full attention (so an upper bound)."""
    type_k, type_v = kv_types(model, config)
    metadata = model.metadata
    arch = metadata.get("general.architecture", "")
    layers, heads_kv = C.llama_model_n_layer(model.handle), C.llama_model_n_head_kv(model.handle)
    head = C.llama_model_n_embd(model.handle) // max(1, C.llama_model_n_head(model.handle))
    key = int(metadata.get(f"{arch}.attention.key_length", head))
    value = int(metadata.get(f"{arch}.attention.value_length", head))
    per_head = key * _BYTES_PER_ELEMENT[type_k] + value * _BYTES_PER_ELEMENT[type_v]
    return float(layers * heads_kv * per_head)


def kv_budget(model: Model) -> float:
    """Bytes that KV may take beside the model: of the GPUs where layers are on one, else of the machine."""
    if model.offloaded and (gpus := machine.gpu_devices()):
        return KV_SHARE * sum(gpu.free_bytes for gpu in gpus)
    # weights mapped from their file count as available memory; those that were repacked are in our own already
    uncounted = max(0, int(C.llama_model_size(model.handle)) - machine.own_memory())
    return KV_SHARE * max(0, machine.available_memory() - uncounted)


def within_memory(
    model: Model, config: ContextConfig, *, budget: float | None = None, replaced: ContextConfig | None = None
) -> ContextConfig | None:
    """The config, with slots halved until its KV fits; None if even one slot's doesn't.

    `budget` in bytes, by default what `kv_budget` finds; `replaced` is a context whose KV will be free by then.
    """
    room = kv_budget(model) if budget is None else budget
    if replaced is not None:
        room += kv_bytes(model, replaced)
    slots = config.max_num_seqs
    while slots >= 1:
        fewer = replace(config, max_num_seqs=slots)
        if kv_bytes(model, fewer) <= room:
            return fewer
        slots //= 2
    return None


def kv_bytes(model: Model, config: ContextConfig) -> float:
    """Bytes of KV that a context takes."""
    return config.max_num_seqs * padded(config.cells_per_seq) * kv_bytes_per_cell(model, config)
