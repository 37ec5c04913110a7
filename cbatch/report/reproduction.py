"""A published study beside what was measured, on stdout: for people as a table, for programs as JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics.bootstrap import Ratio
from cbatch.metrics.reproduction import RATE_AT_LATENCY, Finding, Reproduction
from cbatch.report.latencies import milliseconds, significant
from cbatch.report.layout import Paths, figures, json_line, print_endings, printable, width_of

_TITLES = {
    "output_throughput": "output tok/s",
    "ttft_mean": "TTFT mean",
    "normalized_latency_p50": "e2e/token p50",
    RATE_AT_LATENCY: "requests/s",
}


def reproduction_json(found: Reproduction, paths: Paths, notes: Sequence[str] = ()) -> str:
    """One JSON object in one line: `Reproduction.to_dict()`, `paths` and `notes`."""
    return json_line(found.to_dict(), paths, notes)


def print_reproduction(
    found: Reproduction, paths: Paths, notes: Sequence[str] = (), *, console: Console | None = None
) -> None:
    """A table for each metric; at most 80 columns wide, but for paths."""
    console = console if console is not None else Console()
    width = width_of(console)
    console.print(Text(printable(found.source, console), style="bold"), width=width)
    console.print(Text(_workload(found), style="dim"), width=width)
    for metric in dict.fromkeys(finding.metric for finding in found.findings):
        console.print()
        console.print(_table(metric, [f for f in found.findings if f.metric == metric]), width=width)
    for line in _remarks(found):
        console.print()
        console.print(Text(line), width=width)
    print_endings(console, notes, paths)


def _workload(found: Reproduction) -> str:
    requests = "1 request" if found.requests == 1 else f"{found.requests:,} requests"
    times = "once" if found.repeats == 1 else f"{found.repeats:,} times"
    text = f"{requests} a point, each {times}, lengths {found.scale:g} of the published ones"
    if found.capacity_rps is None:
        return text
    return f"{text}; loads are shares of {significant(found.capacity_rps)} requests/s"


def _table(metric: str, findings: Sequence[Finding]) -> Table:
    policies = list(findings[0].medians)
    table = figures(_TITLES[metric], [*policies, "ratio", "published"])
    for finding in findings:
        values = [_figure(finding, finding.medians[policy]) for policy in policies]
        name = "at 2x idle e2e/token" if metric == RATE_AT_LATENCY else finding.point
        table.add_row(name, *values, _ratio(finding.ratio), _times(finding.published))
    return table


def _figure(finding: Finding, value: float | None) -> str:
    return milliseconds(value) if finding.unit == "ns" else significant(value)


def _ratio(ratio: Ratio) -> str:
    """`2.31 [2.20, 2.41]`; without the interval where there is none."""
    if ratio.low is None or ratio.high is None:
        return _times(ratio.ratio)
    return f"{_times(ratio.ratio)} [{_times(ratio.low)}, {_times(ratio.high)}]"


def _times(ratio: float | None) -> str:
    return "-" if ratio is None else f"{ratio:.2f}" if ratio < 99.995 else f"{ratio:,.0f}"


def _remarks(found: Reproduction) -> Iterator[str]:
    yield f"Why ratios may differ: {found.reason}"
    if any(finding.metric == RATE_AT_LATENCY for finding in found.findings):
        yield (
            "Rates at which e2e/token p50 is twice that of continuous at the lowest load, between the loads by "
            "interpolation; at the highest load tried where it stays below, - where it is above at the lowest."
        )
    if found.outputs:
        yield f"{found.same_outputs:,} of {found.outputs:,} outputs are the same tokens under both policies."
