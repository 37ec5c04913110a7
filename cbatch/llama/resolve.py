"""What a context is made with: a configuration with the defaults of this machine and this model filled in."""

from __future__ import annotations

from dataclasses import dataclass

from cbatch.config import MAX_SEQS, ContextConfig, padded
from cbatch.llama import machine
from cbatch.llama.kv_types import check_kv_types, kv_types
from cbatch.llama.model import Model

_PARKING = 32
_LEAST_OUTPUTS = 16
"""A sequence that runs needs one output a step, a prompt that is scored one a token; the library's default reserves a
row of logits for every token of a ubatch."""


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
    parking: int
    """Sequence ids beyond those of slots, which keep shared cells of a pool alive."""
    max_outputs: int
    """Tokens of a call whose logits may be asked for: more abort the process."""
    threads: int
    cpus: tuple[int, ...]
    offloaded: bool


def resolve_context(model: Model, config: ContextConfig) -> ResolvedContext:
    """`config` with this machine's and this model's defaults filled in.

    Raises `UsageError` where the model can't have the KV type.
    """
    offloaded = model.offloaded
    type_k, type_v = kv_types(model, config)
    threads = config.threads if config.threads is not None else len(config.cpus) or machine.default_threads()
    flash_attn = config.flash_attn if config.flash_attn is not None else ("auto" if offloaded else "on")
    check_kv_types(model.memory, type_k, type_v, flash_attn)
    ubatch, batch = _batches(model, config)
    return ResolvedContext(
        max_num_seqs=config.max_num_seqs,
        cells_per_seq=padded(config.cells_per_seq),
        total_cells=config.total_cells,
        kv_mode=config.kv_mode,
        type_k=type_k,
        type_v=type_v,
        flash_attn=flash_attn,
        ubatch=ubatch,
        batch=batch,
        parking=min(_PARKING, MAX_SEQS - config.max_num_seqs) if can_share(model, config) else 0,
        max_outputs=max(config.max_num_seqs, _LEAST_OUTPUTS),
        threads=threads,
        cpus=config.cpus,
        offloaded=offloaded,
    )


def can_share(model: Model, config: ContextConfig) -> bool:
    """Whether slots can share cells: in a pool, with full attention.

    Between streams the library copies whole ones only, and aborts the process otherwise. Shared cells of a window are
    never given up, so the pool of windows would run out; a recurrent state is shared as a whole only.
    """
    return config.kv_mode == "unified" and model.memory.cuts


def _batches(model: Model, config: ContextConfig) -> tuple[int, int]:
    """Tokens of a ubatch, and of a decode call: for windows in a pool the same.

    Before it computes, llama.cpp tries out where the tokens of all ubatches of a call would go. A later ubatch may
    then take a cell that an earlier one puts behind another sequence's window; with it llama.cpp drops that sequence's
    cells before that one, and doesn't bring them back: those that the first ubatch still looks at are lost, and the
    sequence gets other tokens, without an error (llama_kv_cache::prepare and apply_ubatch).
    """
    if config.kv_mode == "unified" and model.memory.window:
        ubatch = max(config.ubatch, config.max_num_seqs)  # each running sequence needs one token a step
        return ubatch, ubatch
    return config.ubatch, max(config.max_num_batched_tokens, config.ubatch)
