"""`cbatch replay`: its options. What they do is in `cbatch.cli.replay_job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbatch.cli import arguments as args
from cbatch.cli.options import OutputFormat, Summary

_ARRIVALS, _TRACE, _MEASURE = "Arrivals", "Trace", "Measurement"


def replay(
    inputs: Annotated[
        list[str],
        typer.Argument(
            help="A trace (cbatch trace gen, cbatch trace import), or JSONL files of prompts with --request-rate.",
            metavar="INPUT",
        ),
    ],
    request_rate: Annotated[
        float | None,
        Option(
            "--request-rate",
            "-r",
            help="Requests per second; a trace's own times are stretched to it. inf: all at once.",
            show_default="the trace's own times",
            rich_help_panel=_ARRIVALS,
        ),
    ] = None,
    burstiness: Annotated[
        float | None,
        Option(
            help="Shape of gamma gaps for prompts; below 1 is burstier.",
            show_default="1: Poisson",
            rich_help_panel=_ARRIVALS,
        ),
    ] = None,
    max_concurrency: Annotated[
        int | None,
        Option(help="Most requests in flight; with --request-rate inf a closed loop.", rich_help_panel=_ARRIVALS),
    ] = None,
    duration: Annotated[
        float | None,
        Option(metavar="SECONDS", help="Play only what arrives in this time.", rich_help_panel=_ARRIVALS),
    ] = None,
    grace_period: Annotated[
        float,
        Option(
            metavar="SECONDS",
            help="After --duration, time for what has arrived to finish; the rest counts as unfinished.",
            rich_help_panel=_ARRIVALS,
        ),
    ] = 30.0,
    sweep_rate: Annotated[
        str | None,
        Option(
            metavar="START:STOP:STEP",
            help="A replay at each rate: 1:16:2x doubles, 1:16:5 adds, or a list 1,2.5,4.",
            rich_help_panel=_ARRIVALS,
        ),
    ] = None,
    find_capacity: Annotated[
        bool, Option("--find-capacity", help="Search the highest rate that holds --goodput.", rich_help_panel=_ARRIVALS)
    ] = False,
    natural_lengths: Annotated[
        bool,
        Option(
            "--natural-lengths",
            help="Let the model stop, whatever output lengths the trace has.",
            rich_help_panel=_TRACE,
        ),
    ] = False,
    window: Annotated[
        str | None, Option(metavar="START:END", help="Of the trace, in seconds.", rich_help_panel=_TRACE)
    ] = None,
    limit: Annotated[int | None, Option(help="At most so many requests.", rich_help_panel=_TRACE)] = None,
    speedup: Annotated[float | None, Option(help="2 plays twice as fast.", rich_help_panel=_TRACE)] = None,
    scale_lengths: Annotated[
        float | None, Option(help="Factor of all prompt and output lengths.", rich_help_panel=_TRACE)
    ] = None,
    goodput: Annotated[
        list[str] | None,
        Option(
            metavar="METRIC:MS...",
            help="Objectives in milliseconds: ttft, tpot, e2e, queue, such as ttft:500 tpot:50.",
            rich_help_panel=_MEASURE,
        ),
    ] = None,
    attainment: Annotated[
        float, Option(help="Share of requests that has to meet --goodput for a rate to hold.", rich_help_panel=_MEASURE)
    ] = 0.9,
    percentiles: Annotated[str, Option(help="Of all latencies.", rich_help_panel=_MEASURE)] = "50,90,99",
    num_warmups: Annotated[
        int, Option(help="Requests run before time starts, not counted.", rich_help_panel=_MEASURE)
    ] = 1,
    timeline: Annotated[
        Path | None,
        Option(
            metavar="FILE.json", help="Write what each slot did when, for ui.perfetto.dev.", rich_help_panel=_MEASURE
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
    max_num_seqs: args.MaxNumSeqs = 32,
    max_num_batched_tokens: args.MaxNumBatchedTokens = 512,
    prefill_chunk: args.PrefillChunk = None,
    ctx: args.Ctx = None,
    kv: args.Kv = "auto",
    kv_type: args.KvType = None,
    flash_attn: args.FlashAttn = None,
    threads: args.Threads = None,
    cpu_mask: args.CpuMask = "auto",
    priority: args.Priority = "normal",
    ubatch: args.Ubatch = 512,
    gpu_layers: args.GpuLayers = -1,
    main_gpu: args.MainGpu = 0,
    tensor_split: args.TensorSplit = None,
    lora: args.Lora = None,
) -> None:
    """Replay a trace of requests at their arrival times, and say where every millisecond went.

    Prompts that a trace gives as lengths are synthesised to the token, and outputs are as long as it says.

    Exit codes: 0 all requests fine, 3 some failed, 1 the replay failed, 2 a mistake in the call, 130 interrupted.
    """
    given = dict(locals())
    from cbatch.cli.replay_job import run_replay  # loads the native library: not for --help
    from cbatch.cli.replay_options import ReplayOptions

    raise typer.Exit(run_replay(ReplayOptions(**given)))
