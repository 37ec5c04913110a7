"""How much KV memory a context takes, and what fits this machine. Estimates only; the library has the last word."""

from __future__ import annotations

from dataclasses import replace

from cbatch.config import ContextConfig, padded
from cbatch.llama import machine
from cbatch.llama.kv_types import kv_types
from cbatch.llama.lib import C
from cbatch.llama.model import Model

KV_SHARE = 0.6
"""Of the memory that is available, the most that KV may take; the rest is for compute buffers and everybody else."""


def kv_bytes_per_cell(model: Model, config: ContextConfig) -> float:
    """Bytes that one more token of a sequence takes, K and V of all layers that keep every token.

    Where no layer does (recurrent models), what its share is of a slot's state. Positive in any case.
    """
    memory = model.memory
    growing = memory.bytes_per_token(*kv_types(model, config), windowed=False)
    if growing > 0:
        return growing
    return kv_bytes(model, replace(config, max_num_seqs=1)) / padded(config.cells_per_seq)


def kv_budget(model: Model) -> float:
    """Bytes that KV may take beside the model: of the GPUs where layers are on one, else of the machine."""
    if model.offloaded and (gpus := _gpus(model.config.main_gpu)):
        return KV_SHARE * sum(gpu.free_bytes for gpu in gpus)
    # weights mapped from their file count as available memory; those that were repacked are in our own already
    uncounted = max(0, int(C.llama_model_size(model.handle)) - machine.own_memory())
    return KV_SHARE * max(0, machine.available_memory() - uncounted)


def _gpus(only: int | None) -> list[machine.GpuDevice]:
    """Those that layers go to. llama.cpp uses no integrated ones beside others, and numbers those that it uses."""
    found = machine.gpu_devices()
    used = [gpu for gpu in found if not gpu.integrated] or found
    return used if only is None else used[only : only + 1]


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
    memory, types = model.memory, kv_types(model, config)
    slots = config.max_num_seqs
    pools, shared = (1, slots) if config.kv_mode == "unified" else (slots, 1)
    cells = config.total_cells // pools
    windows = padded(min(cells, memory.window * shared + config.ubatch))  # as llama_kv_cache_iswa has it
    growing = config.total_cells * memory.bytes_per_token(*types, windowed=False)
    windowed = pools * windows * memory.bytes_per_token(*types, windowed=True)
    return growing + windowed + slots * memory.state_bytes
