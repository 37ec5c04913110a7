"""What a model and a context will take of the machine's memory, told before they are loaded.

Weights go by the file's header, KV by the formula of `cbatch.llama.memory`. Buffers for computing depend on each
architecture's graph: the library lays that out itself, for a model without weights, and says what it would allocate.
Takes as long as reading the vocabulary. Says nothing of GPUs: what they can't hold, the library refuses by itself.
"""

from __future__ import annotations

import ctypes
import re
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from cbatch.config import CELLS_PAD, ContextConfig, ModelConfig
from cbatch.errors import ModelError
from cbatch.llama import lib, machine
from cbatch.llama.context import Context
from cbatch.llama.gguf_file import split_names
from cbatch.llama.gguf_header import parse_tensors
from cbatch.llama.lib import C
from cbatch.llama.memory import kv_bytes
from cbatch.llama.model import Model
from cbatch.llama.repack import weight_bytes

_BUFFER = re.compile(r"(?:compute|output) buffer size = +([\d.]+) MiB")


@dataclass(frozen=True, slots=True)
class MemoryEstimate:
    """Bytes of memory, of a model and a context."""

    weights: int
    """Mapped from the file. The system may drop them at any time, but then they are read again in every step."""
    repacked: int
    """Copies of weights in another layout, in place of those of the file."""
    kv: int
    compute: int
    """What lies between inputs and outputs of a step, and the logits."""
    available: int
    """What is free, or held by what can be dropped, files above all."""
    limit: int
    """What this process may come to if nothing else ran."""

    @property
    def held(self) -> int:
        """What can't be dropped: it has to be free."""
        return self.repacked + self.kv + self.compute

    @property
    def total(self) -> int:
        return self.weights + self.held

    @property
    def problem(self) -> str | None:
        """Why it certainly can't work; None where it may."""
        if self.held > self.available:
            return f"{_gib(self.held)} GiB of that can't be dropped, and {_gib(self.available)} GiB are free"
        if self.total > self.limit:
            return f"this process may have {_gib(self.limit)} GiB, so weights would be read from disk in every step"
        return None

    def __str__(self) -> str:
        """In GiB, part by part."""
        return (
            f"weights {_gib(self.weights)}, repacked copies {_gib(self.repacked)}, KV {_gib(self.kv)}, "
            f"compute buffers {_gib(self.compute)}: {_gib(self.total)} GiB"
        )


def check_memory(path: Path, config: ModelConfig, context: ContextConfig) -> None:
    """Refuse a model that can't run here even with one short slot, before it is loaded.

    `context` says how a context would be made; of its slots and cells as few are counted as there can be.

    Raises:
        ModelError: it certainly can't: what has to be held isn't free, or all of it is more than there is. With a GPU
            it isn't judged.
    """
    if _offloads(config):
        return
    cells = min(context.cells_per_seq, CELLS_PAD)
    least = replace(context, max_num_seqs=1, cells_per_seq=cells, pool_cells=None)
    estimate = estimate_memory(config, least)
    if estimate.problem is not None:
        raise ModelError(
            f"{path} doesn't fit into memory: with one slot of {cells} KV cells it takes {estimate}; "
            f"{estimate.problem}. Give a smaller model or quantisation, close other programs, or try it all the same "
            "with --no-memory-check"
        )


def estimate_memory(config: ModelConfig, context: ContextConfig) -> MemoryEstimate:
    """Of the context as it is given. Raises `CbatchError` where the library can't make it."""
    features = machine.features_compiled() if config.use_extra_bufts else frozenset[str]()
    parts = [config.path.parent / name for name in split_names(config.path.name)]
    mapped, copied = weight_bytes((tensor for part in parts for tensor in parse_tensors(part)), features)
    with closing(_Outline(config)) as outline:
        return MemoryEstimate(
            weights=mapped,
            repacked=copied,
            kv=round(kv_bytes(outline, context)),
            compute=_compute_bytes(outline, context),
            available=machine.available_memory(),
            limit=machine.memory_limit(),
        )


class _Outline(Model):
    """A model of which everything but the weights is loaded. Contexts of it allocate next to nothing."""

    def __init__(self, config: ModelConfig) -> None:
        lib.start()
        self.config = config
        self.loras = []
        params = self._params()
        params.no_alloc = True
        params.load_mode = C.LLAMA_LOAD_MODE_NONE
        self._load(params)


def _compute_bytes(outline: Model, context: ContextConfig) -> int:
    """Of the graph's buffers and the logits, as the library reports them."""
    plain = replace(context, threads=1, cpus=(), priority="normal")
    with _logged() as lines:
        Context(outline, plain).close()
    return round(sum(float(size) * 2**20 for line in lines for size in _BUFFER.findall(line)))


@contextmanager
def _logged() -> Iterator[list[str]]:
    """What the library logs meanwhile; errors go to `lib` all the same."""
    lines: list[str] = []
    before, data = C.llama_log_callback(), ctypes.c_void_p()
    lib.shared_library("llama").llama_log_get(ctypes.byref(before), ctypes.byref(data))

    def listen(level: int, text: bytes, _data: Any) -> None:
        lines.append(text.decode("utf-8", "replace"))
        before(level, text, data)

    callback = C.llama_log_callback(listen)
    C.llama_log_set(callback, ctypes.c_void_p(0))
    try:
        yield lines
    finally:
        C.llama_log_set(before, data)


def _offloads(config: ModelConfig) -> bool:
    return config.gpu_layers != 0 and bool(C.llama_supports_gpu_offload()) and bool(machine.gpu_devices())


def _gib(size: int) -> str:
    return f"{size / 2**30:.2f}"
