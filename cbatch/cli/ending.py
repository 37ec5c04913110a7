"""How a job leaves the program: run.json in every case, a summary that may have no reader, an exit code."""

from __future__ import annotations

import traceback
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import typer

from cbatch.cli.text import drop_stdout
from cbatch.errors import CbatchError, RunFailed
from cbatch.outputs import write_run_json

EXIT_ROWS_FAILED = 3
EXIT_INTERRUPTED = 130
SWITCH_INTERVAL_S = 0.0005
"""Python's default of 5 ms would let a reading thread hold up the engine between two decode calls."""


@contextmanager
def recorded(
    directory: Path, record: Mapping[str, Any], ending: Callable[[str, str | None], Mapping[str, Any]]
) -> Iterator[Callable[[str], None]]:
    """Keep run.json true: `record` at the beginning, and `ending(status, error)` beside it at the end.

    Yields what to call with the status at a good end. Any exception is told in run.json and becomes `RunFailed`.
    """
    write_run_json(directory, record)

    def end(status: str, error: str | None = None) -> None:
        write_run_json(directory, {**record, **ending(status, error)})

    try:
        yield end
    except Exception as error:
        known = isinstance(error, CbatchError)
        end("failed", str(error) if known else traceback.format_exc())
        reason = str(error) if known else f"unexpected {type(error).__name__}: {error} (see run.json)"
        raise RunFailed(f"{reason}; what was finished is in {directory}") from error


def shown(show: Callable[[], None]) -> None:
    """Call `show`, which prints; where nobody reads or nothing can be written, the job was fine all the same."""
    try:
        show()
    except (BrokenPipeError, SystemExit):  # rich makes one of the other
        drop_stdout()
    except OSError as error:
        drop_stdout()
        typer.echo(f"cbatch: the summary can't be printed: {error.strerror or error}", err=True)
