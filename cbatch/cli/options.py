"""The options of a job as given, and the configurations that they spell. Reads no file but names them."""

from __future__ import annotations

import math
import os
from dataclasses import dataclass
from enum import Enum
from pathlib import Path

from cbatch.cli.parse import (
    parse_cache_size,
    parse_cpu_list,
    parse_logit_bias,
    parse_loras,
    parse_template_kwargs,
    parse_tensor_split,
)
from cbatch.config import ContextConfig, ModelConfig, Overflow, SchedulerConfig
from cbatch.errors import UsageError
from cbatch.sampling import SamplingParams


class OutputFormat(str, Enum):
    """Of the results."""

    parquet = "parquet"
    jsonl = "jsonl"
    csv = "csv"


class Summary(str, Enum):
    """Of the run, on stdout."""

    table = "table"
    json = "json"


@dataclass(frozen=True, slots=True, kw_only=True)
class JobOptions:
    """What `run` and `replay` both take, one field an option; see their help."""

    model: str
    output: Path | None
    output_format: OutputFormat
    force: bool
    summary: Summary
    quiet: bool
    raw: bool
    system: str | None
    chat_template: Path | None
    template_kwargs: str | None
    parse_special: bool
    max_tokens: int
    temperature: float
    top_k: int
    top_p: float
    min_p: float
    typical_p: float
    repetition_penalty: float
    presence_penalty: float
    frequency_penalty: float
    logit_bias: list[str] | None
    seed: int
    stop: list[str] | None
    stop_token_id: list[int] | None
    ignore_eos: bool
    max_num_seqs: int
    max_num_batched_tokens: int
    prefill_chunk: int | None
    ctx: int | None
    kv: str
    kv_type: str | None
    flash_attn: str | None
    threads: int | None
    cpu_mask: str
    priority: str
    ubatch: int
    gpu_layers: int
    main_gpu: int | None
    tensor_split: str | None
    lora: list[str] | None
    batching: str = "continuous"
    static_wait: float = 0.0
    """Milliseconds."""
    prefix_cache: str = "auto"
    no_prefix_cache: bool = False
    preempt: str = "swap"
    kv_overcommit: bool = False
    kv_cells: int | None = None
    ageing: float = 300.0
    """Seconds."""
    compact: bool = True
    on_overflow: str = "error"
    keep: int | None = None

    def check(self) -> None:
        """Raise for every mistake that can be seen in the options alone."""
        self.sampling()
        self.scheduler_config()
        self.context_config()
        self.model_config(Path(), use_extra_bufts=True)
        parse_template_kwargs(self.template_kwargs)
        Overflow(self.on_overflow, self.keep if self.keep is not None else 0)
        if self.on_overflow == "error" and self.keep is not None:
            raise UsageError("--keep is for rows that pass the context: give --on-overflow truncate-left or shift too")
        if self.chat_template is not None and not os.path.isfile(self.chat_template):
            raise UsageError(f"--chat-template {self.chat_template}: there is no such file")

    def sampling(self) -> SamplingParams:
        return SamplingParams(
            max_tokens=self.max_tokens,
            temperature=self.temperature,
            top_k=self.top_k,
            top_p=self.top_p,
            min_p=self.min_p,
            typical_p=self.typical_p,
            repetition_penalty=self.repetition_penalty,
            presence_penalty=self.presence_penalty,
            frequency_penalty=self.frequency_penalty,
            logit_bias=parse_logit_bias(self.logit_bias or ()),
            stop=tuple(self.stop or ()),
            stop_token_ids=tuple(self.stop_token_id or ()),
            ignore_eos=self.ignore_eos,
        )

    def model_config(self, path: Path, *, use_extra_bufts: bool) -> ModelConfig:
        if self.main_gpu is not None and self.tensor_split is not None:
            raise UsageError("--main-gpu puts all layers on one GPU, and --tensor-split on several: keep one")
        return ModelConfig(
            path,
            gpu_layers=self.gpu_layers,
            main_gpu=self.main_gpu,
            tensor_split=parse_tensor_split(self.tensor_split),
            loras=parse_loras(self.lora or ()),
            use_extra_bufts=use_extra_bufts,
        )

    def scheduler_config(self) -> SchedulerConfig:
        """What `--prefix-cache auto` comes to depends on the machine: here it is the most that it may be."""
        if self.kv_overcommit and self.kv != "unified":
            raise UsageError("--kv-overcommit needs one pool of KV for all rows: give --kv unified too")
        if self.kv_cells is not None and self.kv != "unified":
            raise UsageError("--kv-cells is of one pool of KV for all rows: give --kv unified too, or --ctx")
        if self.kv_cells is not None and self.kv_cells < 1:
            raise UsageError(f"--kv-cells is {self.kv_cells}: give 1 or more")
        if not 0 < self.ageing < math.inf:
            raise UsageError(f"--ageing is {self.ageing:g}: give seconds above 0")
        return SchedulerConfig(
            self.max_num_seqs,
            self.max_num_batched_tokens,
            self.prefill_chunk,
            self.batching,
            round(self.static_wait * 1e6),
            prefix_cache_bytes=0 if self.no_prefix_cache else parse_cache_size(self.prefix_cache),
            keep_prefixes=self.arrivals_unknown,
            share_cells=self.on_overflow != "shift",
            group_prefixes=not self.arrivals_unknown,
            preempt=self.preempt,
            kv_overcommit=self.kv_overcommit,
            ageing_ns=round(self.ageing * 1e9),
            compact=self.compact,
            drain="arrival" if self.arrivals_unknown else "longest",
        )

    def overflow(self, limit: int, *, keep: int = 0) -> Overflow:
        """For rows of at most `limit` KV cells; `keep` first tokens of a prompt stay where `--keep` isn't given.

        Raises `UsageError` where so many can't be kept.
        """
        if self.keep is not None:
            keep = self.keep
        if self.on_overflow != "error" and keep > limit // 2:
            raise UsageError(
                f"--keep is {keep}, and a context of {limit:,} can keep half of it: give {limit // 2} or less"
            )
        return Overflow(self.on_overflow, keep)

    @property
    def results_format(self) -> OutputFormat:
        """Of the results."""
        return self.output_format

    @property
    def arrivals_unknown(self) -> bool:
        """Whether requests come one by one, so that nobody can tell which prefixes later ones will share."""
        return False

    def context_config(self) -> ContextConfig:
        """Before the rows are known: slots as asked for, cells by `--ctx` or the default."""
        defaults = ContextConfig()
        return ContextConfig(
            max_num_seqs=self.max_num_seqs,
            cells_per_seq=self.ctx if self.ctx is not None else defaults.cells_per_seq,
            max_num_batched_tokens=self.max_num_batched_tokens,
            ubatch=self.ubatch,
            kv_mode="split" if self.kv == "auto" else self.kv,
            pool_cells=self.kv_cells,
            kv_type=self.kv_type,
            shifts=self.on_overflow == "shift",
            flash_attn=self.flash_attn,
            threads=self.threads,
            cpus=parse_cpu_list(self.cpu_mask) or (),
            priority=self.priority,
        )
