from __future__ import annotations

import io

from rich.cells import cell_len
from rich.console import Console

from cbatch.report.trace_lint import print_findings
from cbatch.traces.findings import Finding

FINDINGS = [
    Finding("error", "bad_lines", "3 lines can't be read and are left out: " + "x.csv:4: no number; " * 6 + "\x1b[2J"),
    Finding("warning", "quantised_times", "時間"),
    Finding("info", "format", "read as Azure LLM (CSV)"),
]


def test_in_a_pipe_each_finding_is_a_line() -> None:
    data = io.BytesIO()
    console = Console(file=io.TextIOWrapper(data, "ascii", write_through=True), width=80)
    print_findings(FINDINGS, console=console)
    lines = data.getvalue().decode("ascii").splitlines()
    assert lines[0].startswith("error: 3 lines can't be read")
    assert lines[0].endswith("\\ufffd[2J (bad_lines)")
    assert lines[1:] == ["warning: \\u6642\\u9593 (quantised_times)", "info: read as Azure LLM (CSV) (format)"]


def test_on_a_terminal_the_level_has_a_colour_and_long_ones_wrap() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=200, record=True)
    print_findings(FINDINGS, console=console)
    styled = console.export_text(styles=True, clear=False)
    assert "31merror" in styled
    assert "33mwarning" in styled
    assert "2minfo" in styled
    assert "\x1b[2J" not in styled
    lines = console.export_text().splitlines()
    assert max(cell_len(line.rstrip()) for line in lines) <= 80
    assert len(lines) > 3


def test_nothing_found_is_nothing_printed() -> None:
    console = Console(file=io.StringIO(), width=80, record=True)
    print_findings([], console=console)
    assert console.export_text().strip() == ""
