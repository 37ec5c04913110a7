"""The options that only `run` has: which rows, how safely, and the final form. What they do is told by `options`."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

from typer import Argument, Option

from cbatch.cli.arguments import ENGINE, OUTPUT

INPUT, SAFETY = "Rows", "Safety"

Inputs = Annotated[
    list[str],
    Argument(
        help="JSONL, JSON, CSV, TSV, Parquet, Arrow or text files, compressed or not, directories, globs, or - for "
        "standard input.",
        metavar="INPUT",
    ),
]
Format = Annotated[
    str,
    Option(
        "--format",
        help="jsonl, json, csv, tsv, parquet, arrow or text; auto goes by the name.",
        rich_help_panel=INPUT,
    ),
]
PromptColumn = Annotated[
    str | None, Option(metavar="NAME", help="Where the prompt is.", show_default="prompt", rich_help_panel=INPUT)
]
IdColumn = Annotated[
    str | None, Option(metavar="NAME", help="Where the id is.", show_default="custom_id, id", rich_help_panel=INPUT)
]
MessagesColumn = Annotated[
    str | None,
    Option(metavar="NAME", help="Where a chat's messages are.", show_default="messages", rich_help_panel=INPUT),
]
Template = Annotated[
    str | None,
    Option(
        metavar="TEXT|FILE",
        help="Jinja template of the prompt, such as 'Classify: {{ text }}'; it sees every field of the row.",
        rich_help_panel=INPUT,
    ),
]
Where = Annotated[
    str | None,
    Option(
        metavar="CONDITION",
        help="Only rows for which it holds, such as 'score > 3 and lang == \"en\"'.",
        rich_help_panel=INPUT,
    ),
]
Sample = Annotated[
    float | None,
    Option(metavar="N|SHARE", help="So many rows, or such a share, drawn by --seed.", rich_help_panel=INPUT),
]
Offset = Annotated[int, Option(metavar="N", help="Leave out the first rows.", rich_help_panel=INPUT)]
Limit = Annotated[int | None, Option(metavar="N", help="At most so many rows.", rich_help_panel=INPUT)]
DryRun = Annotated[
    bool,
    Option(
        "--dry-run",
        help="Show the first rows as the model will see them, their lengths, what fits and how long it may take; "
        "write nothing.",
        rich_help_panel=INPUT,
    ),
]
Output = Annotated[
    Path | None,
    Option(
        "--output",
        "-o",
        help="Directory to write, or a single file of results (.parquet, .jsonl, .csv).",
        show_default="INPUT.cbatch",
        rich_help_panel=OUTPUT,
    ),
]
Order = Annotated[
    str, Option(help="input or completion: in which order the results stand at the end.", rich_help_panel=OUTPUT)
]
Force = Annotated[
    bool,
    Option(
        "--force",
        help="Start over, where an earlier run would be resumed; its directory is kept as DIR.1, DIR.2, ...",
        rich_help_panel=OUTPUT,
    ),
]
RetryFailed = Annotated[
    bool, Option("--retry-failed", help="Resume, and run rows that failed again.", rich_help_panel=SAFETY)
]
Supervise = Annotated[
    bool,
    Option(
        "--supervise/--no-supervise",
        help="Run in a child process that is started again when it dies or stalls; without, in this one, for "
        "debuggers.",
        rich_help_panel=SAFETY,
    ),
]
StallTimeout = Annotated[
    float, Option(metavar="S", help="A step that takes longer counts as stalled; 0: never.", rich_help_panel=SAFETY)
]
MemoryCheck = Annotated[
    bool,
    Option("--memory-check/--no-memory-check", help="Refuse what memory can't hold.", rich_help_panel=SAFETY),
]
Auto = Annotated[
    bool,
    Option(
        "--auto/--no-auto",
        help="Settings that aren't given are those that cbatch tune found for this machine and model, or for a long "
        "job the fastest of a few that are tried for 8 s.",
        rich_help_panel=ENGINE,
    ),
]
