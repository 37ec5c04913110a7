"""Builds the parts of a job from its options: model, encoder, context size. Drives nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import typer

from cbatch.cli.options import JobOptions
from cbatch.cli.parse import parse_cpu_list, parse_template_kwargs
from cbatch.cli.sizing import cells_wanted, slots_wanted
from cbatch.clock import Clock
from cbatch.config import CELLS_PAD, ContextConfig, ModelConfig, SchedulerConfig, padded
from cbatch.errors import UsageError
from cbatch.llama import machine
from cbatch.llama.chat import load_template
from cbatch.llama.encode import Encoder, check_tokens
from cbatch.llama.gguf_file import check_model_files
from cbatch.llama.locate import resolve_model
from cbatch.llama.memory import kv_budget, kv_bytes, kv_bytes_per_cell, within_memory
from cbatch.llama.model import Model
from cbatch.llama.probe import probe, warning_for
from cbatch.llama.tokenizer import Tokenizer
from cbatch.outputs import RunWriter, check_directory
from cbatch.types import Job, Row, RowFault, RowKind, RowRef

PATIENCE_S = 2.0
"""How long a slow input may keep the first rows waiting for company."""


def check_model(options: JobOptions) -> tuple[ModelConfig, str | None]:
    """The model's files, looked at but not loaded, and a warning if this build's kernels for them are broken."""
    path, header = check_model_files(resolve_model(options.model))
    result = probe(header.weight_types)
    config = options.model_config(path, use_extra_bufts=result.ok)
    return config, None if result.ok else warning_for(result)


def ready_model(options: JobOptions, directory: Path) -> ModelConfig:
    """The model, once it is sure that the output can be written; a warning of its kernels goes to stderr."""
    check_directory(directory, options.force)
    config, warning = check_model(options)
    if warning is not None:
        typer.echo(f"cbatch: {warning}", err=True)
    return config


def scheduler_config(options: JobOptions) -> SchedulerConfig:
    """With `--prefix-cache auto` kept to a quarter of the memory that is free."""
    config = options.scheduler_config()
    if options.prefix_cache != "auto":
        return config
    affordable = machine.available_memory() // 4
    return replace(config, prefix_cache_bytes=min(config.prefix_cache_bytes, affordable))


def make_encoder(options: JobOptions, model: Model, tokenizer: Tokenizer) -> Encoder:
    """Raises `UsageError` for a template that can't be read or parsed, `ParameterError` for tokens not in the model."""
    check_tokens(options.sampling(), model.n_vocab)
    kwargs = parse_template_kwargs(options.template_kwargs)
    return Encoder(
        model,
        tokenizer,
        template=load_template(model, options.chat_template, kwargs),
        raw=options.raw,
        system=options.system,
        parse_special=options.parse_special,
        run_seed=options.seed,
    )


def make_writer(
    options: JobOptions,
    directory: Path,
    window: Sequence[Job],
    model: Model,
    encoder: Encoder,
    clock: Clock,
    **more: Any,
) -> RunWriter:
    """Writes a job's tables; the look-ahead window decides their columns. `more` goes to the writer."""

    def is_chat(ref: RowRef) -> bool:
        return ref.kind is RowKind.CHAT or (ref.kind is RowKind.PROMPT and encoder.templates_prompts)

    return RunWriter(
        directory,
        output_format=options.results_format.value,
        sample=[job.ref if isinstance(job, RowFault) else job[0] for job in window],
        model=model.config.path.name,
        clock=clock,
        token_bytes=Tokenizer(model).token_bytes,
        is_chat=is_chat,
        **more,
    )


def encode_rows(rows: Iterable[Row | RowFault], encoder: Encoder) -> Iterator[Job]:
    """One job for each row."""
    for row in rows:
        if isinstance(row, RowFault):
            yield row
            continue
        request = encoder.encode(row)
        yield request if isinstance(request, RowFault) else (row.ref, request)


def most_cells(options: JobOptions, model: Model) -> int:
    """KV cells that a row may fill at most: `--ctx`, else what the model was trained for and one slot has memory for.

    Raises `UsageError` where there is no memory for any row.
    """
    if options.kv_cells is not None:
        return min(padded(options.kv_cells), model.n_ctx_train if options.ctx is None else padded(options.ctx))
    if options.ctx is not None:
        return padded(options.ctx)
    affordable = int(kv_budget(model) / kv_bytes_per_cell(model, options.context_config()))
    if affordable < CELLS_PAD:
        raise UsageError(
            f"{affordable} KV cells fit into the memory that the model leaves: "
            "give a smaller --kv-type such as q8_0, or a smaller model"
        )
    return min(model.n_ctx_train, affordable // CELLS_PAD * CELLS_PAD)


def place_threads(options: JobOptions, config: ContextConfig) -> ContextConfig:
    """With `--cpu-mask auto`, bind a thread to each CPU where there is one for every CPU that we may use.

    Compute threads wait for one another by spinning, hundreds of times a step. While other programs run, the operating
    system may put two of them on one CPU, and each wait then lasts a time slice: 60 against 118 decoded tokens/s with
    one busy process beside two threads (tests/benchmarks/bench_contention.py). Where CPUs are left over, another
    process may be bound to the same ones, so nothing is bound.
    """
    cpus = machine.allowed_cpus()
    if foreign := set(config.cpus).difference(cpus or config.cpus):
        raise UsageError(f"--cpu-mask {options.cpu_mask}: CPU {min(foreign)} can't be used here, {_show(cpus)} can")
    if parse_cpu_list(options.cpu_mask) is not None:
        return config
    threads = config.threads if config.threads is not None else machine.default_threads()
    return replace(config, cpus=cpus) if 1 < threads == len(cpus) else config


def _show(cpus: tuple[int, ...]) -> str:
    """`0-3` or `0,2,5`."""
    first, last = cpus[0], cpus[-1]
    return f"{first}-{last}" if last - first + 1 == len(cpus) else ",".join(map(str, cpus))


def size_for_rows(
    options: JobOptions, model: Model, needs: Sequence[int], *, all_read: bool, limit: int
) -> tuple[ContextConfig, str | None]:
    """The context for rows that need so many KV cells each, and a note where memory kept it smaller than they want.

    `all_read`: no more rows will come. `limit` is what `most_cells` says.
    Raises `UsageError` where `--ctx` asks for more than one slot has memory for.
    """
    config = place_threads(options, options.context_config())
    slots = slots_wanted(needs, config.max_num_seqs, all_read=all_read)
    longest, most = cells_wanted(needs, limit)
    if options.ctx is not None:
        sizes = [options.ctx]
    elif config.kv_mode == "unified":
        sizes = [max(most, -(-longest // slots))]  # a slot's share of a pool in which the longest row fits too
    else:
        sizes = [longest, most]
    wanted = [replace(config, max_num_seqs=slots, cells_per_seq=padded(cells)) for cells in sizes]
    fitting = [within_memory(model, context) for context in wanted]
    whole = [context for context in fitting if context is not None and context.max_num_seqs == slots]
    if whole:
        return whole[0], None
    best = fitting[-1]
    if best is None:
        gib = kv_bytes(model, replace(wanted[-1], max_num_seqs=1)) / 2**30
        raise UsageError(
            f"one row of {wanted[-1].cells_per_seq} KV cells takes {gib:.1f} GiB, and the model leaves "
            f"{kv_budget(model) / 2**30:.1f}: give a smaller --ctx, or a smaller --kv-type such as q8_0"
        )
    return best, f"memory allows {best.max_num_seqs} slots of {best.cells_per_seq} KV cells, not {slots}"
