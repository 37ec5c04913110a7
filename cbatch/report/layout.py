"""How finished things stand on stdout: facts, tables and lists in 80 columns, or a line of JSON. Knows no figures."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.report.text import lines

WIDTH = 80

Paths = Mapping[str, "str | os.PathLike[str]"]
"""What was written, by what it is: `{"results": "prompts.cbatch/results"}`."""


def json_line(record: Mapping[str, object], paths: Paths, notes: Sequence[str]) -> str:
    """One JSON object in one line: the record, `paths` and `notes`."""
    written = {name: os.fspath(path) for name, path in paths.items()}
    return json.dumps({**record, "paths": written, "notes": list(notes)}, allow_nan=False)


def facts(rows: Iterable[tuple[str | Text, str | Text]]) -> Table:
    """Names and what there is to say of them; what is long is wrapped beside its name."""
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column(overflow="fold")
    for name, text in rows:
        table.add_row(name, Text(text) if isinstance(text, str) else text)
    return table


def figures(title: str, columns: Sequence[str], min_width: int = 0) -> Table:
    """An empty table of figures under `columns`; a row is named in its first cell."""
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column(title, style="bold", no_wrap=True)
    for name in columns:
        table.add_column(name, justify="right", no_wrap=True, min_width=min_width)
    return table


def width_of(console: Console) -> int:
    """Columns to use: more make lines that the eye can't follow.

    What has no room is cut with an ellipsis, which not every encoding has: without it, lines may wrap instead.
    """
    return min(WIDTH, console.width) if has_blocks(console) else WIDTH


def has_blocks(console: Console) -> bool:
    """Whether block elements and the ellipsis can be printed."""
    return console.encoding.startswith("utf")


def print_endings(console: Console, notes: Sequence[str], paths: Paths) -> None:
    """Notes and paths; these aren't cut or wrapped, and can be printed whatever the terminal's encoding."""
    written = [f"{name:<10}{os.fspath(path)}" for name, path in paths.items()]
    for title, entries in (("Notes", notes), ("Written", written)):
        if entries:
            console.print()
            console.print(Text(title, style="bold"))
        for entry in entries:
            console.print(Text("  " + printable(lines(entry), console)), soft_wrap=True)


def printable(text: str, console: Console) -> str:
    """With what the terminal's encoding lacks as escapes."""
    return text.encode(console.encoding, "backslashreplace").decode(console.encoding)
