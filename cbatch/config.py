"""How a run is configured. Plain values, validated here; knows nothing of the command line."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cbatch.errors import UsageError

MAX_SEQS = 256
"""LLAMA_MAX_SEQ of llama.cpp: above it no context is created."""
CELLS_PAD = 256
"""llama.cpp rounds the KV cells of a sequence up to a multiple of this."""
KV_TYPES = ("f32", "f16", "bf16", "q8_0", "q5_1", "q5_0", "q4_1", "q4_0", "iq4_nl")
KV_MODES = ("split", "unified")
PRIORITIES = ("low", "normal", "medium", "high", "realtime")
MAX_CPUS = 512
"""GGML_MAX_N_THREADS."""
FLASH_ATTN = ("auto", "on", "off")
BATCHING = ("continuous", "static", "padded")
PREEMPT = ("swap", "recompute", "off")
DRAIN = ("arrival", "longest")
ON_OVERFLOW = ("error", "truncate-left", "truncate-middle", "shift")


@dataclass(frozen=True, slots=True)
class SchedulerConfig:
    """How sequences share steps."""

    max_num_seqs: int = 32
    """Sequences that run at once (slots)."""
    max_num_batched_tokens: int = 2048
    """Token budget of a step: decodes first, the rest is for prompt chunks."""
    prefill_chunk: int | None = None
    """Most prompt tokens of one sequence in a step; None leaves it to the budget."""
    batching: str = "continuous"
    """One of `BATCHING`: when waiting sequences may enter slots (`cbatch.engine.admission`)."""
    static_wait_ns: int = 0
    """Static and padded: how long the first of a group may wait for others, until there are max_num_seqs."""
    prefix_cache_bytes: int = 0
    """Memory for prompt prefixes that are computed once and restored for others; 0 is none."""
    keep_prefixes: bool = False
    """Keep every prompt for those that come later, not only what prompts that wait already share."""
    share_cells: bool = True
    """In a pool, let sequences share the cells of a prefix; not where contexts shift, which moves cells."""
    group_prefixes: bool = False
    """Of equal priorities, let those that share prefixes run one after the other instead of in order of arrival."""
    drain: str = "arrival"
    """One of `DRAIN`: which of equal priorities are let in first once nothing more will arrive; for continuous."""
    preempt: str = "swap"
    """One of `PREEMPT`: what becomes of a sequence's KV when it gives way to one of higher priority."""
    kv_overcommit: bool = False
    """Reserve KV for what is computed and some growth instead of all that a sequence may come to."""
    ageing_ns: int = 300_000_000_000
    """Waiting this long makes up for one step of priority, so that nothing waits for ever."""
    compact: bool = True
    """Close the gaps between slots at the end of a job, where that pays."""
    whole_prompts: bool = False
    """A prompt waits for a step that has room for all of it; only one that none has room for is cut."""

    def __post_init__(self) -> None:
        if self.batching not in BATCHING:
            raise UsageError(f"batching is {self.batching!r}: give one of {', '.join(BATCHING)}")
        if self.preempt not in PREEMPT:
            raise UsageError(f"preempt is {self.preempt!r}: give one of {', '.join(PREEMPT)}")
        if self.drain not in DRAIN:
            raise UsageError(f"drain is {self.drain!r}: give one of {', '.join(DRAIN)}")
        if self.kv_overcommit and self.preempt == "off":
            raise UsageError("kv-overcommit needs preemption for when memory runs out: leave --preempt off out")
        if self.prefix_cache_bytes < 0:
            raise UsageError(f"prefix-cache is {self.prefix_cache_bytes} bytes: give 0 or more")
        if self.ageing_ns < 1:
            raise UsageError(f"ageing is {self.ageing_ns} ns: give more than 0")
        if self.static_wait_ns < 0:
            raise UsageError(f"static-wait is {self.static_wait_ns / 1e6:g} ms: give 0 or more")
        if not 1 <= self.max_num_seqs <= MAX_SEQS:
            raise UsageError(f"max_num_seqs is {self.max_num_seqs}: give 1 to {MAX_SEQS} (llama.cpp's limit)")
        if self.max_num_batched_tokens < self.max_num_seqs:
            raise UsageError(
                f"max_num_batched_tokens is {self.max_num_batched_tokens}, below max_num_seqs "
                f"({self.max_num_seqs}): every running sequence needs one token a step"
            )
        if self.prefill_chunk is not None and self.prefill_chunk < 1:
            raise UsageError(f"prefill_chunk is {self.prefill_chunk}: give 1 or more, or leave it out")
        if self.prefill_chunk is not None and self.whole_prompts:
            raise UsageError(f"prefill_chunk is {self.prefill_chunk}, and whole_prompts are wanted: leave one out")


@dataclass(frozen=True, slots=True)
class Overflow:
    """What becomes of requests that pass the context; `cbatch.engine.fit` tells what each policy does."""

    policy: str = "error"
    """One of `ON_OVERFLOW`."""
    keep: int = 0
    """First tokens of a prompt that stay whatever is dropped."""

    def __post_init__(self) -> None:
        if self.policy not in ON_OVERFLOW:
            raise UsageError(f"on-overflow is {self.policy!r}: give one of {', '.join(ON_OVERFLOW)}")
        if self.keep < 0:
            raise UsageError(f"keep is {self.keep}: give 0 or more tokens")


REFUSE = Overflow()
"""Prompts that are too long fail, and outputs are cut."""


@dataclass(frozen=True, slots=True)
class ModelConfig:
    """Which weights, and where they run."""

    path: Path
    """A GGUF file; of a split model the first part."""
    gpu_layers: int = -1
    """Layers on the GPU; negative is all. Without a GPU it has no effect."""
    main_gpu: int | None = None
    """The one GPU for all of them, by llama.cpp's number; None is all GPUs."""
    tensor_split: tuple[float, ...] = ()
    """Share of each GPU; empty is by their free memory."""
    loras: tuple[tuple[Path, float], ...] = ()
    """(adapter file, scale)."""
    use_extra_bufts: bool = True
    """False avoids repacked weights and AMX, on a broken build."""


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """A llama context. `None` means: chosen by `cbatch.llama` for this machine."""

    max_num_seqs: int = 32
    cells_per_seq: int = 2048
    """KV cells a sequence may fill; in unified mode the pool is max_num_seqs times as many."""
    max_num_batched_tokens: int = 2048
    ubatch: int = 512
    kv_mode: str = "split"
    pool_cells: int | None = None
    """In unified mode: cells of the pool, in place of max_num_seqs x cells_per_seq."""
    kv_type: str | None = None
    """For K and V, or `K/V` such as `q8_0/bf16`."""
    shifts: bool = False
    """Whether tokens will be dropped from the middle of sequences, which not every type of K allows."""
    flash_attn: str | None = None
    threads: int | None = None
    cpus: tuple[int, ...] = ()
    """CPUs to compute on, a thread bound to each; empty leaves it to the operating system."""
    priority: str = "normal"
    """Of the compute threads, one of `PRIORITIES`."""

    def __post_init__(self) -> None:
        if self.kv_mode not in KV_MODES:
            raise UsageError(f"kv mode is {self.kv_mode!r}: give {' or '.join(KV_MODES)}")
        if self.flash_attn is not None and self.flash_attn not in FLASH_ATTN:
            raise UsageError(f"flash-attn is {self.flash_attn!r}: give one of {', '.join(FLASH_ATTN)}")
        if self.kv_type is not None:
            for name in self.kv_type.split("/", 1):
                if name not in KV_TYPES:
                    raise UsageError(
                        f"kv-type is {self.kv_type!r}: give one of {', '.join(KV_TYPES)}, or K/V such as q8_0/bf16"
                    )
        if self.priority not in PRIORITIES:
            raise UsageError(f"priority is {self.priority!r}: give one of {', '.join(PRIORITIES)}")
        if self.pool_cells is not None and (self.pool_cells < 1 or self.kv_mode != "unified"):
            raise UsageError(f"a pool of {self.pool_cells} KV cells: give 1 or more, and unified KV")
        if self.ubatch < 1:
            raise UsageError(f"ubatch is {self.ubatch}: give 1 or more")
        if self.cells_per_seq < 1:
            raise UsageError(f"ctx is {self.cells_per_seq}: give 1 or more")
        if self.threads is not None and self.threads < 1:
            raise UsageError(f"threads is {self.threads}: give 1 or more")
        if self.threads is not None and 0 < len(self.cpus) < self.threads:
            raise UsageError(
                f"{self.threads} threads on {len(self.cpus)} CPUs would wait for one another: "
                "give as many CPUs as threads, or fewer threads"
            )

    @property
    def total_cells(self) -> int:
        """Of all sequences together."""
        if self.pool_cells is not None:
            return padded(self.pool_cells)
        return self.max_num_seqs * padded(self.cells_per_seq)


def padded(cells: int) -> int:
    """`cells` as llama.cpp will round it."""
    return -(-cells // CELLS_PAD) * CELLS_PAD
