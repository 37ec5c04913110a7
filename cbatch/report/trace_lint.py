"""What a trace's lint found, on stdout. Knows no trace."""

from __future__ import annotations

from collections.abc import Sequence

from rich.console import Console
from rich.text import Text

from cbatch.report.layout import facts, printable, width_of
from cbatch.report.text import one_line
from cbatch.traces.findings import Finding

_STYLES = {"error": "bold red", "warning": "yellow", "info": "dim"}


def print_findings(findings: Sequence[Finding], *, console: Console | None = None) -> None:
    """On a terminal a paragraph each; else a line each, `level: message (code)`, that programs can search."""
    console = console if console is not None else Console()
    shown = [(f.level, printable(one_line(f.message), console), f" ({f.code})") for f in findings]
    if console.is_terminal:
        rows = [(Text(level, _STYLES[level]), Text(message).append(code, "dim")) for level, message, code in shown]
        console.print(facts(rows), width=width_of(console))
        return
    for level, message, code in shown:
        console.print(Text(f"{level}: {message}{code}"), soft_wrap=True)
