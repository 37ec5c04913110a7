"""`cbatch report`: a page with pictures of what runs left on disk."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer
from typer import Option


def report(
    directories: Annotated[
        list[Path],
        typer.Argument(
            metavar="DIR...", help="Output directories of cbatch run, replay or compare; several stand side by side."
        ),
    ],
    output: Annotated[
        Path, Option("--output", "-o", metavar="FILE", help="The HTML file; its pictures are written beside it too.")
    ] = Path("report.html"),
) -> None:
    """Turn runs, replays, rate sweeps and comparisons into one HTML file with pictures.

    The file needs no network and no other file. Each picture is also written as a PNG beside it, and an earlier
    report of the same name is replaced.
    """
    from cbatch.pages import write_report  # matplotlib takes a second to load, and other commands don't need it

    page, *pictures = write_report([each for directory in directories for each in _reported(directory)], output)
    typer.echo(f"{page}\n{len(pictures)} pictures beside it: {page.stem}-*.png")


def _reported(directory: Path) -> list[Path]:
    """A preset's are the comparisons of its points, in order of their making."""
    from cbatch.outputs.directory import COMPARE_JSON, PRESET_JSON  # loads pyarrow: not for --help

    if not (directory / PRESET_JSON).is_file():
        return [directory]
    found = sorted(directory.glob(f"*/{COMPARE_JSON}"), key=lambda path: path.stat().st_mtime_ns)
    return [path.parent for path in found]
