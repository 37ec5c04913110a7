"""`cbatch replay`: its options. What they do is in `cbatch.cli.replay_job`."""

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


def replay(
    context: typer.Context,
    inputs: own.Inputs,
    request_rate: own.RequestRate = None,
    burstiness: own.Burstiness = None,
    max_concurrency: own.MaxConcurrency = None,
    duration: own.Duration = None,
    grace_period: own.GracePeriod = 30.0,
    sweep_rate: Annotated[
        str | None,
        Option(
            metavar="START:STOP:STEP",
            help="A replay at each rate: 1:16:2x doubles, 1:16:5 adds, or a list 1,2.5,4.",
            rich_help_panel=own.ARRIVALS,
        ),
    ] = None,
    find_capacity: Annotated[
        bool,
        Option("--find-capacity", help="Search the highest rate that holds --goodput.", rich_help_panel=own.ARRIVALS),
    ] = False,
    natural_lengths: own.NaturalLengths = False,
    window: own.Window = None,
    limit: own.Limit = None,
    speedup: own.Speedup = None,
    scale_lengths: own.ScaleLengths = None,
    goodput: own.Goodput = None,
    attainment: Annotated[
        float,
        Option(help="Share of requests that has to meet --goodput for a rate to hold.", rich_help_panel=own.MEASURE),
    ] = 0.9,
    percentiles: Annotated[str, Option(help="Of all latencies.", rich_help_panel=own.MEASURE)] = "50,90,99",
    num_warmups: own.NumWarmups = 1,
    timeline: Annotated[
        Path | None,
        Option(
            metavar="FILE.json", help="Write what each slot did when, for ui.perfetto.dev.", rich_help_panel=own.MEASURE
        ),
    ] = None,
    model: args.Model = "smollm2",
    output: Annotated[
        Path | None,
        Option("--output", "-o", help="Directory to write.", show_default="INPUT.replay", rich_help_panel=args.OUTPUT),
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
    batching: args.Batching = "continuous",
    static_wait: args.StaticWait = 0.0,
    max_num_batched_tokens: args.MaxNumBatchedTokens = 512,
    prefill_chunk: args.PrefillChunk = None,
    prefix_cache: args.PrefixCache = "auto",
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
    """Replay a trace of requests at their arrival times, and say where every millisecond went.

    Prompts that a trace gives as lengths are synthesised to the token, and outputs are as long as it says.

    Exit codes: 0 all requests fine, 3 some failed, 1 the replay failed, 2 a mistake in the call, 130 interrupted.
    """
    given = {name: value for name, value in locals().items() if name != "context"}
    from cbatch.cli.replay_job import run_replay  # loads the native library: not for --help
    from cbatch.cli.replay_options import ReplayOptions

    raise typer.Exit(run_replay(ReplayOptions(**given, given=given_options(context))))
