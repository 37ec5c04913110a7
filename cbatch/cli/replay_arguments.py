"""The options that `replay` and `compare` share: names, types and help."""

from __future__ import annotations

from typing import Annotated

import typer
from typer import Option

ARRIVALS, TRACE, MEASURE = "Arrivals", "Trace", "Measurement"

Inputs = Annotated[
    list[str],
    typer.Argument(
        help="A trace (cbatch trace gen, cbatch trace import), or prompts as of cbatch run with --request-rate.",
        metavar="INPUT",
    ),
]
RequestRate = Annotated[
    float | None,
    Option(
        "--request-rate",
        "-r",
        help="Requests per second; a trace's own times are stretched to it. inf: all at once.",
        show_default="the trace's own times",
        rich_help_panel=ARRIVALS,
    ),
]
Burstiness = Annotated[
    float | None,
    Option(
        help="Shape of gamma gaps for prompts; below 1 is burstier.",
        show_default="1: Poisson",
        rich_help_panel=ARRIVALS,
    ),
]
MaxConcurrency = Annotated[
    int | None,
    Option(help="Most requests in flight; with --request-rate inf a closed loop.", rich_help_panel=ARRIVALS),
]
Duration = Annotated[
    float | None,
    Option(metavar="SECONDS", help="Play only what arrives in this time.", rich_help_panel=ARRIVALS),
]
GracePeriod = Annotated[
    float,
    Option(
        metavar="SECONDS",
        help="After --duration, time for what has arrived to finish; the rest counts as unfinished.",
        rich_help_panel=ARRIVALS,
    ),
]
NaturalLengths = Annotated[
    bool,
    Option(
        "--natural-lengths",
        help="Let the model stop, whatever output lengths the trace has.",
        rich_help_panel=TRACE,
    ),
]
Window = Annotated[str | None, Option(metavar="START:END", help="Of the trace, in seconds.", rich_help_panel=TRACE)]
Limit = Annotated[int | None, Option(help="At most so many requests.", rich_help_panel=TRACE)]
Speedup = Annotated[float | None, Option(help="2 plays twice as fast.", rich_help_panel=TRACE)]
ScaleLengths = Annotated[float | None, Option(help="Factor of all prompt and output lengths.", rich_help_panel=TRACE)]
Goodput = Annotated[
    list[str] | None,
    Option(
        metavar="METRIC:MS...",
        help="Objectives in milliseconds: ttft, tpot, e2e, queue, such as ttft:500 tpot:50.",
        rich_help_panel=MEASURE,
    ),
]
NumWarmups = Annotated[int, Option(help="Requests run before time starts, not counted.", rich_help_panel=MEASURE)]
