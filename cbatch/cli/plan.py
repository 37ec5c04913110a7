"""`cbatch plan`: its options. What they do is in `cbatch.cli.plan_job`."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

from cbatch.cli import arguments as args
from cbatch.cli import run_arguments as own
from cbatch.cli.options import Summary


def plan(
    context: typer.Context,
    inputs: own.Inputs,
    input_format: own.Format = "auto",
    prompt_column: own.PromptColumn = None,
    id_column: own.IdColumn = None,
    messages_column: own.MessagesColumn = None,
    template: own.Template = None,
    where: own.Where = None,
    sample: own.Sample = None,
    offset: own.Offset = 0,
    limit: own.Limit = None,
    output_len: Annotated[
        str | None,
        Option(
            metavar="N|DISTRIBUTION",
            help="Output tokens a row, where rows may end before their max-tokens: 48, uniform:A:B, "
            "lognormal:MEAN:SIGMA, exponential:MEAN[:MAX] or empirical:TRACE.parquet.",
            show_default="from 1 to max-tokens",
            rich_help_panel=own.INPUT,
        ),
    ] = None,
    model: args.Model = "smollm2",
    raw: args.Raw = False,
    system: args.System = None,
    chat_template: args.ChatTemplate = None,
    template_kwargs: args.TemplateKwargs = None,
    parse_special: args.ParseSpecial = False,
    max_tokens: args.MaxTokens = 256,
    ignore_eos: args.IgnoreEos = False,
    seed: args.Seed = 0,
    max_num_seqs: args.MaxNumSeqs = 32,
    max_num_batched_tokens: args.MaxNumBatchedTokens = 2048,
    prefill_chunk: args.PrefillChunk = None,
    prefix_cache: args.PrefixCache = "auto",
    no_prefix_cache: args.NoPrefixCache = False,
    kv_cells: args.KvCells = None,
    ctx: args.Ctx = None,
    on_overflow: args.OnOverflow = "error",
    keep: args.Keep = None,
    kv: args.Kv = "auto",
    kv_type: args.KvType = None,
    flash_attn: args.FlashAttn = None,
    threads: args.Threads = None,
    cpu_mask: args.CpuMask = "auto",
    ubatch: args.Ubatch = 512,
    gpu_layers: args.GpuLayers = -1,
    main_gpu: args.MainGpu = None,
    tensor_split: args.TensorSplit = None,
    lora: args.Lora = None,
    auto: own.Auto = True,
    memory_check: own.MemoryCheck = True,
    summary: args.SummaryForm = Summary.table,
    quiet: args.Quiet = False,
) -> None:
    """Say what a job will take before it starts: rows, tokens, memory, time, and what would make it faster.

    With a profile of cbatch tune nothing is run; without one, rows are tried for some seconds as by run --dry-run.

    Exit codes: 0 fine, 3 some rows can't be run, 2 a mistake in the call.
    """
    given = {name: value for name, value in locals().items() if name != "context"}
    from cbatch.cli.plan_job import run_plan  # loads the native library: not for --help

    raise typer.Exit(run_plan(given, context))
