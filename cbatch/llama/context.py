"""A llama context: KV memory and compute buffers for one way of batching. Computes batches; decides nothing."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from cbatch.config import ContextConfig, padded
from cbatch.errors import EngineError
from cbatch.llama import lib, machine
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.llama.threadpool import ThreadPool

_FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}


@dataclass(frozen=True, slots=True)
class ResolvedContext:
    """What a context was made with, defaults resolved."""

    max_num_seqs: int
    cells_per_seq: int
    total_cells: int
    kv_mode: str
    type_k: str
    type_v: str
    flash_attn: str
    ubatch: int
    batch: int
    threads: int
    cpus: tuple[int, ...]
    offloaded: bool


class Context:
    """Owns a llama_context of `model`, which must outlive it. Raises `EngineError` if the library refuses."""

    def __init__(self, model: Model, config: ContextConfig) -> None:
        self.model = model
        self.config = config
        self.resolved = resolve_context(model, config)
        # `strlen` as the abort callback: true as soon as the first byte is set, and no Python in the compute loop
        self._abort_flag = ctypes.create_string_buffer(2)
        self._abort_callback = ctypes.cast(ctypes.CDLL(None).strlen, C.ggml_abort_callback)
        self._pool: ThreadPool | None = None
        self.handle: Any = self._create()
        self.memory: Any = C.llama_get_memory(self.handle)
        self._read_back()
        self._apply_loras()
        if config.cpus or config.priority != "normal":
            self._pool = ThreadPool(self.resolved.threads, cpus=config.cpus, priority=config.priority)
            self._pool.attach(self.handle)

    def _create(self) -> Any:
        resolved = self.resolved
        params = C.llama_context_default_params()
        params.n_ctx = resolved.total_cells
        params.n_batch = resolved.batch
        params.n_ubatch = resolved.ubatch
        params.n_seq_max = resolved.max_num_seqs
        # one output a sequence is all a step needs; the default reserves a logits row for every token of a ubatch
        params.n_outputs_max = resolved.max_num_seqs
        params.n_threads = params.n_threads_batch = resolved.threads
        params.flash_attn_type = _FLASH_ATTN[resolved.flash_attn]
        params.type_k = GGMLQuantizationType[resolved.type_k.upper()].value
        params.type_v = GGMLQuantizationType[resolved.type_v.upper()].value
        params.kv_unified = resolved.kv_mode == "unified"
        params.no_perf = True
        params.abort_callback = self._abort_callback
        params.abort_callback_data = ctypes.cast(self._abort_flag, ctypes.c_void_p)
        lib.take_errors()
        handle = C.llama_init_from_model(self.model.handle, params)
        if not handle:
            reason = lib.take_errors() or "the library gives no reason"
            raise EngineError(
                f"no context of {resolved.max_num_seqs} x {resolved.cells_per_seq} cells could be made: {reason}; "
                "try a smaller --ctx or --max-num-seqs, or another --kv-type"
            )
        return handle

    def _read_back(self) -> None:
        """The library rounds the context; what it made counts."""
        unified = self.resolved.kv_mode == "unified"
        total = int(C.llama_n_ctx(self.handle))
        per_seq = int(C.llama_n_ctx_seq(self.handle))
        self.total_cells = total if unified else per_seq * self.resolved.max_num_seqs
        self.cells_per_seq = min(per_seq, self.total_cells)
        self.max_batched_tokens = int(C.llama_n_batch(self.handle))

    def _apply_loras(self) -> None:
        loras = self.model.loras
        if loras:
            adapters = (C.llama_adapter_lora_p_ctypes * len(loras))(*(adapter for adapter, _ in loras))
            scales = (ctypes.c_float * len(loras))(*(scale for _, scale in loras))
            if C.llama_set_adapters_lora(self.handle, adapters, len(loras), scales) != 0:
                raise EngineError(f"the LoRA adapters can't be applied: {lib.take_errors()}")

    def decode(self, batch: Any) -> int:
        """Compute a batch; returns llama_decode's code. Waits for a GPU to be done."""
        code = int(C.llama_decode(self.handle, batch))
        if self.resolved.offloaded:
            C.llama_synchronize(self.handle)
        return code

    def logits(self, rows: int) -> npt.NDArray[np.float32]:
        """float32[rows, n_vocab], in batch order: the library's own buffer, until the next decode."""
        pointer = C.llama_get_logits(self.handle)
        return np.ctypeslib.as_array(pointer, shape=(rows, self.model.n_vocab))

    def num_cells(self, slot: int) -> int:
        """Tokens that the slot's KV holds."""
        return int(C.llama_memory_seq_pos_max(self.memory, slot)) + 1

    def cut(self, slot: int, start: int) -> bool:
        """Drop the slot's KV from position `start` on. False where the memory can't be cut there."""
        return bool(C.llama_memory_seq_rm(self.memory, slot, start, -1))

    def clear(self, slot: int) -> None:
        """Drop all of the slot's KV."""
        C.llama_memory_seq_rm(self.memory, slot, -1, -1)

    def abort(self) -> None:
        """End the running decode, and every later one, as soon as the backend looks. Any thread may call it."""
        self._abort_flag[0] = b"\x01"

    def warm_up(self, batch: Any) -> None:
        """Pay the costs of a first decode, and forget its tokens."""
        self.decode(batch)
        C.llama_memory_clear(self.memory, True)

    def close(self) -> None:
        if self.handle:
            C.llama_free(self.handle)
            self.handle = None
        if self._pool is not None:
            self._pool.close()


def kv_types(model: Model, config: ContextConfig) -> tuple[str, str]:
    """Of K and V; measured on CPUs, bf16 with flash attention decodes up to twice as fast as llama.cpp's own f16."""
    kv_type = config.kv_type if config.kv_type is not None else ("f16" if model.offloaded else "bf16")
    type_k, _, type_v = kv_type.partition("/")
    return type_k, type_v or type_k


def resolve_context(model: Model, config: ContextConfig) -> ResolvedContext:
    """`config` with this machine's and this model's defaults filled in."""
    offloaded = model.offloaded
    type_k, type_v = kv_types(model, config)
    cells = padded(config.cells_per_seq)
    threads = config.threads if config.threads is not None else len(config.cpus) or machine.default_threads()
    flash_attn = config.flash_attn if config.flash_attn is not None else ("auto" if offloaded else "on")
    return ResolvedContext(
        max_num_seqs=config.max_num_seqs,
        cells_per_seq=cells,
        total_cells=cells * config.max_num_seqs,
        kv_mode=config.kv_mode,
        type_k=type_k,
        type_v=type_v,
        flash_attn=flash_attn,
        ubatch=config.ubatch,
        batch=max(config.max_num_batched_tokens, config.ubatch),
        threads=threads,
        cpus=config.cpus,
        offloaded=offloaded,
    )
