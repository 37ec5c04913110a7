"""`cbatch simulate`: its options. What they do is in `cbatch.cli.simulate_job`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option

from cbatch.cli import arguments as args
from cbatch.cli import replay_arguments as own
from cbatch.cli.given import given_options
from cbatch.cli.options import Summary

_PROFILES = "the profile's"
_ENGINE = args.ENGINE


def simulate(
    context: typer.Context,
    inputs: Annotated[
        list[str],
        typer.Argument(help="A trace of lengths (cbatch trace gen, cbatch trace import).", metavar="TRACE"),
    ],
    profile: Annotated[
        Path,
        Option(
            "--profile",
            "-p",
            help="What steps cost: a directory that run, replay or one repetition of compare wrote, or a JSON file of "
            "step costs.",
        ),
    ],
    variant: Annotated[
        list[str] | None,
        Option(
            metavar="NAME:KEY=VALUE,...",
            help="Beside the profile's settings, others of the engine, such as few:max_num_seqs=8; may be repeated.",
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    request_rate: own.RequestRate = None,
    sweep_rate: Annotated[
        str | None,
        Option(
            metavar="START:STOP:STEP",
            help="A simulation at each rate: 1:16:2x doubles, 1:16:5 adds, or a list 1,2.5,4.",
            rich_help_panel=own.ARRIVALS,
        ),
    ] = None,
    find_capacity: Annotated[
        bool,
        Option("--find-capacity", help="Search the highest rate that holds --goodput.", rich_help_panel=own.ARRIVALS),
    ] = False,
    max_concurrency: own.MaxConcurrency = None,
    duration: own.Duration = None,
    grace_period: own.GracePeriod = 30.0,
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
    max_tokens: Annotated[
        int | None,
        Option(help="Output tokens where the trace says none.", show_default=_PROFILES, rich_help_panel=own.TRACE),
    ] = None,
    seed: Annotated[int, Option(min=0, help="Of the prompts' tokens.", rich_help_panel=own.TRACE)] = 0,
    max_num_seqs: Annotated[
        int | None, Option(help="Requests that run at once (slots).", show_default=_PROFILES, rich_help_panel=_ENGINE)
    ] = None,
    batching: Annotated[
        str | None,
        Option(help="continuous, static or padded.", show_default=_PROFILES, rich_help_panel=_ENGINE),
    ] = None,
    static_wait: Annotated[
        float | None,
        Option(
            metavar="MS",
            help="How long a static group waits to be full.",
            show_default=_PROFILES,
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    max_num_batched_tokens: Annotated[
        int | None, Option(help="Most tokens computed in a step.", show_default=_PROFILES, rich_help_panel=_ENGINE)
    ] = None,
    prefill_chunk: Annotated[
        int | None,
        Option(help="Most prompt tokens of a row in a step.", show_default=_PROFILES, rich_help_panel=_ENGINE),
    ] = None,
    prefix_cache: Annotated[
        str | None,
        Option(
            metavar="SIZE",
            help="Memory for beginnings that prompts share, or 0.",
            show_default=_PROFILES,
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    preempt: Annotated[
        str | None, Option(help="swap, recompute or off.", show_default=_PROFILES, rich_help_panel=_ENGINE)
    ] = None,
    kv: Annotated[str | None, Option(help="split or unified.", show_default=_PROFILES, rich_help_panel=_ENGINE)] = None,
    kv_overcommit: Annotated[
        bool | None,
        Option(
            "--kv-overcommit/--no-kv-overcommit",
            help="With unified KV, reserve cells for what is filled and a little more.",
            show_default=_PROFILES,
            rich_help_panel=_ENGINE,
        ),
    ] = None,
    kv_cells: Annotated[
        int | None, Option(help="Cells of the pool.", show_default=_PROFILES, rich_help_panel=_ENGINE)
    ] = None,
    ctx: Annotated[
        int | None, Option(help="KV cells a request.", show_default=_PROFILES, rich_help_panel=_ENGINE)
    ] = None,
    ubatch: Annotated[
        int | None, Option(help="Tokens the kernels take at once.", show_default=_PROFILES, rich_help_panel=_ENGINE)
    ] = None,
    output: Annotated[
        Path | None,
        Option(
            "--output",
            "-o",
            help="Directory to write, as cbatch replay does; with variants or rates, a directory in it for each.",
            show_default="none",
            rich_help_panel=args.OUTPUT,
        ),
    ] = None,
    force: args.Force = False,
    summary: args.SummaryForm = Summary.table,
) -> None:
    """Predict a replay: the real scheduler in virtual time, hours in seconds, without a model.

    Steps take as long as a fitted cost model says, whose error on measured steps is told too.

    Exit codes: 0 all requests fine, 3 some failed, 2 a mistake in the call.
    """
    given = {name: value for name, value in locals().items() if name != "context"}
    from cbatch.cli.simulate_job import run_simulate  # loads NumPy and more: not for --help

    raise typer.Exit(run_simulate({**given, "given": given_options(context)}))
