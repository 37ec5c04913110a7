"""A llama context: KV memory and compute buffers for one way of batching. Computes batches; decides nothing."""

from __future__ import annotations

import ctypes
from typing import Any

import numpy as np
import numpy.typing as npt
from gguf import GGMLQuantizationType

from cbatch.config import ContextConfig
from cbatch.errors import EngineError
from cbatch.llama import lib
from cbatch.llama.lib import C
from cbatch.llama.model import Model
from cbatch.llama.resolve import can_share, resolve_context
from cbatch.llama.threadpool import ThreadPool

_FLASH_ATTN = {"auto": -1, "off": 0, "on": 1}


class Context:
    """Owns a llama_context of `model`, which must outlive it.

    Raises `UsageError` where the model can't have the KV type, `EngineError` where the library refuses.
    """

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
        params.n_seq_max = resolved.max_num_seqs + resolved.parking
        params.n_outputs_max = max(resolved.max_outputs, params.n_seq_max)  # else the process is aborted
        params.n_threads = params.n_threads_batch = resolved.threads
        params.flash_attn_type = _FLASH_ATTN[resolved.flash_attn]
        params.type_k = GGMLQuantizationType[resolved.type_k.upper()].value
        params.type_v = GGMLQuantizationType[resolved.type_v.upper()].value
        params.kv_unified = resolved.kv_mode == "unified"
        params.swa_full = False  # windowed layers keep their window, not the whole context
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
        original = self.model.n_ctx_original
        self.extended = original is not None and per_seq > original
        """Whether keys may be rotated otherwise than in contexts no longer than the model's original one."""
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

    def seq_range(self, slot: int) -> tuple[int, int]:
        """First and last position that the slot's KV holds in every layer; (-1, -1) where it's empty.

        Full attention holds all from 0 on. Sliding windows have given up the first ones, a recurrent state stands for
        its last token only.
        """
        return (
            int(C.llama_memory_seq_pos_min(self.memory, slot)),
            int(C.llama_memory_seq_pos_max(self.memory, slot)),
        )

    def is_intact(self, slot: int, length: int) -> bool:
        """Whether the slot holds exactly the first `length` tokens, with all that the next token looks at."""
        first, last = self.seq_range(slot)
        if length == 0 or last != length - 1:
            return length == 0 and last == -1
        return self.model.memory.has_state or first <= self._first_needed(length)

    def _first_needed(self, length: int) -> int:
        """The first position that the token after `length` others looks at in every layer."""
        window = self.model.memory.window
        return max(0, length - window + 1) if window else 0

    def cut(self, slot: int, length: int) -> bool:
        """Cut the slot's KV back to its first `length` tokens. False, and nothing done, where that can't be.

        A recurrent state can't be taken back. A sliding window can only be where all that the next token looks at is
        still there, about which the library says nothing: it cuts, and computes without the cells that are gone.
        """
        if length == 0:
            self.clear(slot)
            return True
        first, last = self.seq_range(slot)
        if last < length - 1 or (not self.model.memory.has_state and first > self._first_needed(length)):
            return False
        return bool(C.llama_memory_seq_rm(self.memory, slot, length, -1))

    def shift(self, slot: int, keep: int, count: int) -> bool:
        """Drop `count` tokens of the slot after its first `keep`, and move those after them up. False if that can't be.

        Only where `shift_obstacle` finds none, and only of a slot that shares no cells: they would move in all slots.
        """
        if not C.llama_memory_seq_rm(self.memory, slot, keep, keep + count):
            return False
        C.llama_memory_seq_add(self.memory, slot, keep + count, -1, -count)
        return True

    def clear(self, slot: int) -> None:
        """Drop all of the slot's KV."""
        C.llama_memory_seq_rm(self.memory, slot, -1, -1)

    @property
    def can_fork(self) -> bool:
        """Whether slots can share cells (`cbatch.llama.resolve.can_share`)."""
        return can_share(self.model, self.config)

    def fork(self, source: int, target: int, length: int) -> bool:
        """Let slot `target` share the first `length` tokens of `source` and nothing else; it takes no cells.

        False, with `target` empty, where slots can't share cells or `source` has fewer tokens.
        """
        self.clear(target)
        if not self.can_fork or self.num_cells(source) < length:
            return False
        C.llama_memory_seq_cp(self.memory, source, target, 0, length)
        return self.num_cells(target) == length

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
