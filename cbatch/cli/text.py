"""Plain text that several commands print."""

from __future__ import annotations

import os
import shutil
import sys
import textwrap


def format_bytes(count: int) -> str:
    """Such as `98 MB` or `4.7 GB`, in powers of 1000."""
    if count >= 1_000_000_000:
        return f"{count / 1e9:.1f} GB"
    return f"{count / 1e6:.0f} MB" if count >= 1_000_000 else f"{count / 1e3:.0f} kB"


def hang(line: str, indent: int) -> str:
    """`line`, wrapped in a terminal with `indent` spaces before what follows; whole in a pipe, for grep."""
    if sys.stdout is None or not sys.stdout.isatty():
        return line
    width = max(indent + 20, shutil.get_terminal_size().columns)
    return textwrap.fill(line, width, subsequent_indent=" " * indent, break_long_words=False, break_on_hyphens=False)


def drop_stdout() -> None:
    """What is still to be printed goes nowhere: the interpreter would try at exit, and complain."""
    os.dup2(os.open(os.devnull, os.O_WRONLY), 1)
