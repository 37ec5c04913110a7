"""Builds the parts of a run from its options: model, encoder, context size. Drives nothing."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import replace

from cbatch.cli.options import RunOptions
from cbatch.cli.parse import parse_cpu_list, parse_template_kwargs
from cbatch.cli.sizing import padded, size_context
from cbatch.config import ContextConfig, ModelConfig
from cbatch.errors import UsageError
from cbatch.llama import machine
from cbatch.llama.chat import load_template
from cbatch.llama.encode import Encoder, check_tokens
from cbatch.llama.gguf_file import check_model_files
from cbatch.llama.locate import resolve_model
from cbatch.llama.memory import KV_SHARE, kv_bytes_per_cell, within_memory
from cbatch.llama.model import Model
from cbatch.llama.probe import probe, warning_for
from cbatch.llama.tokenizer import Tokenizer
from cbatch.types import Job, Row, RowFault


def check_model(options: RunOptions) -> tuple[ModelConfig, str | None]:
    """The model's files, looked at but not loaded, and a warning if this build's kernels for them are broken."""
    path, header = check_model_files(resolve_model(options.model))
    result = probe(header.weight_types)
    config = options.model_config(path, use_extra_bufts=result.ok)
    return config, None if result.ok else warning_for(result)


def make_encoder(options: RunOptions, model: Model, tokenizer: Tokenizer) -> Encoder:
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


def encode_rows(rows: Iterable[Row | RowFault], encoder: Encoder) -> Iterator[Job]:
    """One job for each row."""
    for row in rows:
        if isinstance(row, RowFault):
            yield row
            continue
        request = encoder.encode(row)
        yield request if isinstance(request, RowFault) else (row.ref, request)


def most_cells(options: RunOptions, model: Model) -> int:
    """KV cells that a row may fill at most: `--ctx`, else the context the model was trained for."""
    return padded(options.ctx) if options.ctx is not None else model.n_ctx_train


def place_threads(options: RunOptions, config: ContextConfig) -> ContextConfig:
    """With `--cpu-mask auto`, bind a thread to each CPU where there is one for every CPU that we may use.

    Compute threads wait for one another by spinning, hundreds of times a step. While other programs run, the operating
    system may put two of them on one CPU, and each wait then lasts a time slice: 60 against 118 decoded tokens/s with
    one busy process beside two threads (tests/benchmarks/bench_contention.py). Where CPUs are left over, another
    process may be bound to the same ones, so nothing is bound.
    """
    if parse_cpu_list(options.cpu_mask) is not None:
        return config
    threads = config.threads if config.threads is not None else machine.default_threads()
    cpus = machine.allowed_cpus()
    return replace(config, cpus=cpus) if 1 < threads == len(cpus) else config


def size_for_rows(options: RunOptions, model: Model, window: Sequence[Job], *, all_read: bool) -> ContextConfig:
    """The context for these first rows, within memory: with fewer slots where there isn't enough for all.

    Raises `UsageError` where not even one slot fits.
    """
    wanted = size_context(
        place_threads(options, options.context_config()),
        window,
        all_read=all_read,
        fixed=options.ctx is not None,
        limit=most_cells(options, model),
    )
    per_cell, free = kv_bytes_per_cell(model, wanted), machine.available_memory()
    fitting = within_memory(wanted, per_cell, KV_SHARE * free)
    if fitting is None:
        raise UsageError(
            f"one row of {wanted.cells_per_seq} KV cells takes {wanted.cells_per_seq * per_cell / 2**30:.1f} GiB, "
            f"and {free / 2**30:.1f} GiB of memory are free: give a smaller --ctx or a smaller --kv-type such as q8_0"
        )
    return fitting
