"""`cbatch trace`: the options of its commands. What they do is in the modules `trace_*` beside it."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Argument, Option

_ARRIVALS, _LENGTHS, _PREFIXES, _READING = "Arrivals", "Lengths", "Shared prefixes", "Reading"
_CHANGES, _OUTPUT = "Changes (in this order)", "Output"
_SPEC = "A number, uniform:MIN:MAX, lognormal:MEAN:SIGMA[:MIN:MAX], exponential:MEAN[:MAX], or empirical:TRACE.parquet"

app = typer.Typer(help="Make, import, check and show traces of requests.", no_args_is_help=True)


Output = Annotated[
    Path, Option("--output", "-o", metavar="OUT.parquet", help="File to write.", rich_help_panel=_OUTPUT)
]
Force = Annotated[bool, Option("--force", help="Replace the file if it exists.", rich_help_panel=_OUTPUT)]
RequestRate = Annotated[
    float | None, Option("--request-rate", "-r", help="Requests per second, on average.", rich_help_panel=_ARRIVALS)
]
Burstiness = Annotated[
    float | None,
    Option(help="Shape of gamma gaps: 1 is Poisson, below is burstier, above smoother.", rich_help_panel=_ARRIVALS),
]
ArrivalKind = Annotated[
    str | None,
    Option(
        metavar="KIND",
        help="poisson (gamma with --burstiness), gamma, constant, or burst: all at once.",
        show_default="poisson",
        rich_help_panel=_ARRIVALS,
    ),
]
Format = Annotated[
    str | None,
    Option(
        metavar="NAME",
        help="cbatch, azure, burstgpt, vidur, bailian, mooncake, aiperf, sharegpt, openai or prompts.",
        show_default="told by the columns",
        rich_help_panel=_READING,
    ),
]
TimeUnit = Annotated[
    str | None,
    Option(metavar="s|ms", help="What the file's times count.", show_default="the format's", rich_help_panel=_READING),
]
BlockSize = Annotated[
    int | None,
    Option(
        metavar="TOKENS", help="Length of a block of hash_ids.", show_default="the format's", rich_help_panel=_READING
    ),
]


@app.command()
def gen(
    output: Output,
    arrival: ArrivalKind = None,
    request_rate: RequestRate = None,
    burstiness: Burstiness = None,
    num_requests: Annotated[int | None, Option(help="End after so many.", rich_help_panel=_ARRIVALS)] = None,
    duration: Annotated[
        float | None, Option(metavar="SECONDS", help="End before this time.", rich_help_panel=_ARRIVALS)
    ] = None,
    prompt_tokens: Annotated[str, Option(metavar="SPEC", help=f"{_SPEC}.", rich_help_panel=_LENGTHS)] = "128",
    output_tokens: Annotated[
        str, Option(metavar="SPEC", help="Likewise; a replay forces outputs to it.", rich_help_panel=_LENGTHS)
    ] = "64",
    prefix_share: Annotated[
        float,
        Option(
            help="Share of each prompt, in whole blocks, that it has in common with others.", rich_help_panel=_PREFIXES
        ),
    ] = 0.0,
    num_prefixes: Annotated[
        int | None, Option(help="Prefixes to draw from, uniformly.", show_default="8", rich_help_panel=_PREFIXES)
    ] = None,
    prefix_block: Annotated[
        int | None, Option(metavar="TOKENS", help="Length of a block.", show_default="16", rich_help_panel=_PREFIXES)
    ] = None,
    priorities: Annotated[
        str | None,
        Option(
            metavar="NAME:WEIGHT,...",
            help="Such as high:0.1,normal:0.9, or whole numbers for names; the lower runs earlier.",
            show_default="all normal",
        ),
    ] = None,
    seed: Annotated[int, Option(min=0, help="The same seed and options make the same file.")] = 0,
    force: Force = False,
) -> None:
    """Make a trace from an arrival process and distributions of lengths.

    Arrivals, lengths, prefixes and priorities have a random stream each: changing one leaves the others as they were.
    """
    given = dict(locals())
    from cbatch.cli.trace_gen import GenOptions, gen_trace

    gen_trace(GenOptions(**given))


@app.command(name="import")
def import_(
    file: Annotated[Path, Argument(metavar="FILE", help="Of any format that --format names, or gzipped text.")],
    output: Output,
    format: Format = None,  # noqa: A002
    time_unit: TimeUnit = None,
    block_size: BlockSize = None,
    model: Annotated[
        str | None,
        Option(
            "--model",
            "-m",
            help="For ShareGPT: its tokenizer measures the replies, which are the output lengths then.",
            rich_help_panel=_READING,
        ),
    ] = None,
    strict: Annotated[
        bool,
        Option(
            "--strict",
            help="End at a line that can't be read; else it is left out and counted.",
            rich_help_panel=_READING,
        ),
    ] = False,
    arrival: ArrivalKind = None,
    request_rate: RequestRate = None,
    burstiness: Burstiness = None,
    seed: Annotated[int, Option(min=0, help="Of the arrivals.", rich_help_panel=_ARRIVALS)] = 0,
    window: Annotated[
        str | None,
        Option(metavar="START:END", help="Keep what arrives then, in seconds.", rich_help_panel=_CHANGES),
    ] = None,
    limit: Annotated[int | None, Option(help="Keep at most so many requests.", rich_help_panel=_CHANGES)] = None,
    speedup: Annotated[float | None, Option(help="2 makes it twice as fast.", rich_help_panel=_CHANGES)] = None,
    scale_lengths: Annotated[
        float | None, Option(help="Factor of all prompt and output lengths.", rich_help_panel=_CHANGES)
    ] = None,
    force: Force = False,
) -> None:
    """Make a trace from one of another format, or from a trace with changes.

    Formats without times need arrivals, by --request-rate or --arrival burst; others get new times from them.
    Requests are sorted by arrival, which keeps all of them in memory: 10 million take about 3 GB.

    Exit codes: 0 all requests imported, 3 some lines couldn't be read, 2 a mistake in the call.
    """
    given = dict(locals())
    from cbatch.cli.trace_import import ImportOptions, import_file

    raise typer.Exit(import_file(ImportOptions(**given)))


@app.command()
def lint(
    files: Annotated[list[Path], Argument(metavar="FILE", help="Traces of any format.")],
    format: Format = None,  # noqa: A002
    time_unit: TimeUnit = None,
    block_size: BlockSize = None,
) -> None:
    """Say what is odd about traces, and what an import does about it.

    Exit codes: 0 nothing that costs requests, 3 lines that can't be read, 2 a file that can't be read.
    """
    from cbatch.cli.trace_look import lint_files
    from cbatch.cli.trace_source import SourceOptions

    sources = [SourceOptions(file=file, format=format, time_unit=time_unit, block_size=block_size) for file in files]
    raise typer.Exit(lint_files(sources))


@app.command()
def show(
    file: Annotated[Path, Argument(metavar="FILE", help="A trace of any format that has times.")],
    format: Format = None,  # noqa: A002
    time_unit: TimeUnit = None,
    block_size: BlockSize = None,
    as_json: Annotated[bool, Option("--json", help="Print a JSON object.", rich_help_panel=_OUTPUT)] = False,
) -> None:
    """Show a trace: rate, burstiness, lengths, reuse of prefixes, how it was made."""
    from cbatch.cli.trace_look import show_file
    from cbatch.cli.trace_source import SourceOptions

    show_file(SourceOptions(file=file, format=format, time_unit=time_unit, block_size=block_size), as_json=as_json)


@app.command()
def prompts(
    trace: Annotated[Path, Argument(metavar="TRACE.parquet", help="One that cbatch made or imported.")],
    output: Annotated[
        Path, Option("--output", "-o", metavar="OUT.jsonl", help="File to write.", rich_help_panel=_OUTPUT)
    ],
    model: Annotated[
        str, Option("--model", "-m", help="A GGUF file, smollm2, or hf:OWNER/REPO/FILE.gguf: whose tokens to count.")
    ] = "smollm2",
    seed: Annotated[int, Option(min=0, help="Of the texts, as in cbatch replay.")] = 0,
    force: Force = False,
) -> None:
    """Write a trace's prompts as OpenAI Batch lines for /v1/completions, for cbatch run and other servers.

    A text has as many tokens as the trace says, and outputs are as long (ignore_eos). Arrival times are left behind.
    """
    given = dict(locals())
    from cbatch.cli.trace_prompts import PromptsOptions, write_prompts  # loads the native library: not for --help

    write_prompts(PromptsOptions(**given))
