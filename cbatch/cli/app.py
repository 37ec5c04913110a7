"""The `cbatch` program: its commands, and how an error reaches the user."""

from __future__ import annotations

import os
import sys
from typing import Annotated

import typer

from cbatch import __version__
from cbatch.cli.compare import compare
from cbatch.cli.doctor import doctor
from cbatch.cli.models import models
from cbatch.cli.plan import plan
from cbatch.cli.replay import replay
from cbatch.cli.report import report
from cbatch.cli.run import run
from cbatch.cli.simulate import simulate
from cbatch.cli.text import drop_stdout
from cbatch.cli.trace import app as trace
from cbatch.cli.tune import tune
from cbatch.errors import CbatchError

app = typer.Typer(
    name="cbatch",
    help="Offline batch inference and load replay on a continuous batcher over llama.cpp, inside one process.",
    no_args_is_help=True,
    add_completion=False,
    pretty_exceptions_enable=False,
)
app.command()(run)
app.command()(plan)
app.command()(replay)
app.command()(compare)
app.command()(simulate)
app.command()(tune)
app.command()(report)
app.add_typer(trace, name="trace")
app.command()(models)
app.command()(doctor)


def _print_version(wanted: bool) -> None:
    if wanted:
        typer.echo(f"cbatch {__version__}")
        raise typer.Exit


@app.callback()
def _options(
    version: Annotated[
        bool, typer.Option("--version", callback=_print_version, is_eager=True, help="Print the version and exit.")
    ] = False,
) -> None:
    """Offline batch inference and load replay on a continuous batcher over llama.cpp, inside one process."""


def _fill_standard_descriptors() -> None:
    """Where one of 0, 1 and 2 is closed, the next file opened would get its number, and what is printed."""
    for number in range(3):
        try:
            os.fstat(number)
        except OSError:
            os.open(os.devnull, os.O_RDWR)


def choose_allocator() -> None:
    """For Arrow, before it is loaded. Its own one keeps what is freed: 45 MB at the end of a job of short rows."""
    os.environ.setdefault("ARROW_DEFAULT_MEMORY_POOL", "system")


def main() -> None:
    """Run the command line. An error meant for the user is one message and an exit code, never a traceback."""
    _fill_standard_descriptors()
    choose_allocator()
    try:
        app()
    except CbatchError as error:
        typer.echo(f"cbatch: {error}", err=True)
        sys.exit(error.exit_code)
    except KeyboardInterrupt:
        sys.exit(130)
    except OSError as error:  # files are handled where they are named; what is left is standard output
        drop_stdout()
        typer.echo(f"cbatch: what was to be printed can't be written: {error.strerror or error}", err=True)
        sys.exit(1)
