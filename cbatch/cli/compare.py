"""`cbatch compare`: its options. What they do is in `cbatch.cli.compare_job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbatch.cli import arguments as args
from cbatch.cli import replay_arguments as own
from cbatch.cli import run_arguments
from cbatch.cli.given import given_options
from cbatch.cli.options import OutputFormat, Summary

_VARIANTS = "Variants"


def compare(
    context: typer.Context,
    inputs: Annotated[
        list[str] | None,
        typer.Argument(help="A trace, or prompts as of cbatch run; none with --preset.", metavar="INPUT"),
    ] = None,
    policies: Annotated[
        str | None,
        Option(
            metavar="NAME,...",
            help="Of sequential, static, padded, continuous, continuous+chunked, continuous+prefixes; "
            "the first is the baseline.",
            show_default="static,continuous",
            rich_help_panel=_VARIANTS,
        ),
    ] = None,
    ladder: Annotated[
        bool, Option("--ladder", help="sequential, static, continuous, chunked, prefixes.", rich_help_panel=_VARIANTS)
    ] = False,
    variant: Annotated[
        list[str] | None,
        Option(
            metavar="NAME:KEY=VALUE,...",
            help="One more, with other options of the engine, such as few:max_num_seqs=8,kv=unified; may be repeated.",
            rich_help_panel=_VARIANTS,
        ),
    ] = None,
    preset: Annotated[
        str | None,
        Option(
            metavar="anyscale|orca|seed",
            help="A published workload, lengths scaled by --scale-lengths (1/4), beside its published figures. "
            "Of --limit requests a point; orca and seed offer shares of --request-rate, or of the measured capacity.",
            show_default=False,
            rich_help_panel=_VARIANTS,
        ),
    ] = None,
    repeat: Annotated[int, Option(help="Repetitions of each, by turns.", rich_help_panel=_VARIANTS)] = 3,
    report: Annotated[
        bool, Option("--report/--no-report", help="Write report.html.", rich_help_panel=args.OUTPUT)
    ] = True,
    request_rate: own.RequestRate = None,
    burstiness: own.Burstiness = None,
    max_concurrency: own.MaxConcurrency = None,
    duration: own.Duration = None,
    grace_period: own.GracePeriod = 30.0,
    natural_lengths: own.NaturalLengths = False,
    window: own.Window = None,
    limit: own.Limit = None,
    speedup: own.Speedup = None,
    scale_lengths: own.ScaleLengths = None,
    goodput: own.Goodput = None,
    num_warmups: own.NumWarmups = 1,
    model: args.Model = "smollm2",
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="Directory to write.",
            show_default="INPUT.compare, PRESET.preset",
            rich_help_panel=args.OUTPUT,
        ),
    ] = None,
    output_format: args.ResultsFormat = OutputFormat.parquet,
    force: args.Force = False,
    summary: args.SummaryForm = Summary.table,
    quiet: args.Quiet = False,
    raw: args.Raw = False,
    system: args.System = None,
    chat_template: args.ChatTemplate = None,
    template_kwargs: args.TemplateKwargs = None,
    parse_special: args.ParseSpecial = False,
    max_tokens: args.MaxTokens = 256,
    temperature: args.Temperature = 0.0,
    top_k: args.TopK = 0,
    top_p: args.TopP = 1.0,
    min_p: args.MinP = 0.0,
    typical_p: args.TypicalP = 1.0,
    repetition_penalty: args.RepetitionPenalty = 1.0,
    presence_penalty: args.PresencePenalty = 0.0,
    frequency_penalty: args.FrequencyPenalty = 0.0,
    logit_bias: args.LogitBias = None,
    seed: args.Seed = 0,
    stop: args.Stop = None,
    stop_token_id: args.StopTokenId = None,
    ignore_eos: args.IgnoreEos = False,
    auto: run_arguments.Auto = True,
    max_num_seqs: args.MaxNumSeqs = 32,
    max_num_batched_tokens: args.MaxNumBatchedTokens = 2048,
    static_wait: args.StaticWait = 0.0,
    prefill_chunk: args.PrefillChunk = None,
    prefix_cache: args.PrefixCache = "0",
    no_prefix_cache: args.NoPrefixCache = False,
    preempt: args.Preempt = "swap",
    kv_overcommit: args.KvOvercommit = False,
    kv_cells: args.KvCells = None,
    ageing: args.Ageing = 300.0,
    compact: args.Compact = True,
    ctx: args.Ctx = None,
    on_overflow: args.OnOverflow = "error",
    keep: args.Keep = None,
    kv: args.Kv = "auto",
    kv_type: args.KvType = None,
    flash_attn: args.FlashAttn = None,
    threads: args.Threads = None,
    cpu_mask: args.CpuMask = "auto",
    priority: args.Priority = "normal",
    ubatch: args.Ubatch = 512,
    gpu_layers: args.GpuLayers = -1,
    main_gpu: args.MainGpu = None,
    tensor_split: args.TensorSplit = None,
    lora: args.Lora = None,
) -> None:
    """Serve the same requests in several ways, by turns, and say what differs.

    Exit codes: 0 all requests fine, 3 some failed, 1 a replay failed, 2 a mistake in the call, 130 interrupted.
    """
    given = {name: value for name, value in locals().items() if name != "context"}
    from cbatch.cli.compare_job import run_compare  # loads the native library: not for --help
    from cbatch.cli.compare_options import CompareOptions
    from cbatch.cli.preset_job import run_preset

    options = CompareOptions(**{**given, "inputs": inputs or []}, given=given_options(context))
    raise typer.Exit(run_compare(options) if preset is None else run_preset(options))
