"""`cbatch tune`: its options. What they do is in `cbatch.cli.tune_job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbatch.cli import arguments as args
from cbatch.cli import run_arguments as rows
from cbatch.cli.options import Summary

JOB, GOAL = "The job", "What counts"

For = Annotated[
    list[str] | None,
    Option("--for", metavar="INPUT", help="Its rows; may be repeated. As of cbatch run.", rich_help_panel=JOB),
]
PromptLen = Annotated[
    str | None,
    Option(
        metavar="N|DISTRIBUTION",
        help="Prompt tokens a row, without --for: 128, uniform:A:B, lognormal:MEAN:SIGMA, exponential:MEAN[:MAX] or "
        "empirical:TRACE.parquet.",
        show_default="128",
        rich_help_panel=JOB,
    ),
]
OutputLen = Annotated[
    str | None,
    Option(
        metavar="N|DISTRIBUTION",
        help="Output tokens a row, in the same way.",
        show_default="64; with --for, as a few rows get when they are tried",
        rich_help_panel=JOB,
    ),
]


def tune(
    for_rows: For = None,
    prompt_len: PromptLen = None,
    output_len: OutputLen = None,
    input_format: rows.Format = "auto",
    prompt_column: rows.PromptColumn = None,
    messages_column: rows.MessagesColumn = None,
    template: rows.Template = None,
    raw: args.Raw = False,
    max_tokens: args.MaxTokens = 256,
    ignore_eos: args.IgnoreEos = False,
    goodput: Annotated[
        list[str] | None,
        Option(
            metavar="METRIC:MS",
            help="Not throughput, but most requests within limits, such as ttft:500 (ttft, tpot, e2e, queue); may be "
            "repeated.",
            rich_help_panel=GOAL,
        ),
    ] = None,
    request_rate: Annotated[
        float | None,
        Option(metavar="RPS", help="With --goodput: requests per second (Poisson).", rich_help_panel=GOAL),
    ] = None,
    max_stall: Annotated[
        float | None,
        Option(
            metavar="MS",
            help="Most that a step may take, by measured costs, so that no running row waits longer for its next "
            "token; bounds the prompt tokens of a step.",
            rich_help_panel=GOAL,
        ),
    ] = None,
    allow_kv_quant: Annotated[
        bool,
        Option(
            "--allow-kv-quant",
            help="Try types of KV below 16 bits, which change outputs; by how much is told.",
            rich_help_panel=GOAL,
        ),
    ] = False,
    budget: Annotated[float, Option(metavar="S", help="Seconds that it may take, about.", rich_help_panel=GOAL)] = 120,
    profile: Annotated[
        Path | None,
        Option(help="File to write, instead of where run looks for it.", rich_help_panel=args.OUTPUT),
    ] = None,
    model: args.Model = "smollm2",
    cpu_mask: args.CpuMask = "auto",
    priority: args.Priority = "normal",
    gpu_layers: args.GpuLayers = -1,
    main_gpu: args.MainGpu = None,
    tensor_split: args.TensorSplit = None,
    lora: args.Lora = None,
    seed: args.Seed = 0,
    summary: args.SummaryForm = Summary.table,
    quiet: args.Quiet = False,
) -> None:
    """Measure which parameters are fastest here, and keep them: run, replay and compare use them from then on.

    Tries types of KV, flash attention, split and unified KV, ubatches, threads and slots, with a model of what steps
    cost, and keeps to the defaults where nothing is faster.

    Exit codes: 0 done, 1 it broke off, 2 a mistake in the call, 130 interrupted.
    """
    given = dict(locals())
    from cbatch.cli.tune_job import run_tune  # loads the native library: not for --help

    raise typer.Exit(run_tune(given))
