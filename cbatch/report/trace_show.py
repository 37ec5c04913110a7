"""A trace, on stdout: what it's like, and how it came to be. Counts nothing itself."""

from __future__ import annotations

import math
from collections.abc import Iterator, Mapping
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.report.charts import VERTICAL, sparkline
from cbatch.report.latencies import significant
from cbatch.report.layout import facts, has_blocks, printable, width_of
from cbatch.report.text import duration, one_line, percent
from cbatch.traces.stats import Histogram, LengthStats, TraceStats
from cbatch.traces.trace import SECOND, Manifest

CELLS = 60
"""Of a histogram."""
TALL = 4
MOST_NAMED = 8
"""Priorities and tenants that are named."""
_ASCII = str.maketrans(VERTICAL, " ..::==##")


def print_trace_stats(stats: TraceStats, manifest: Manifest, *, console: Console | None = None) -> None:
    """At most 80 columns wide: facts, and histograms of arrivals and lengths."""
    console = console if console is not None else Console()
    width = width_of(console)
    rows = [*_about(stats, manifest), *_origin(manifest)]
    console.print(facts((name, printable(one_line(text), console)) for name, text in rows), width=width)
    for title, histogram, unit in _histograms(stats):
        if len(histogram.counts) > 1:
            console.print()
            console.print(_chart(title, histogram, unit, blocks=has_blocks(console)), width=width)


def _histograms(stats: TraceStats) -> Iterator[tuple[str, Histogram, str]]:
    if stats.arrivals is not None:
        yield "arrivals", stats.arrivals, "s"
    for title, lengths in (("prompts", stats.prompt_tokens), ("outputs", stats.output_tokens)):
        if lengths is not None:
            yield title, lengths.histogram, "tokens"


def _about(stats: TraceStats, manifest: Manifest) -> Iterator[tuple[str, str]]:
    seconds = stats.span_ns / SECOND
    clock = f" ({duration(seconds)})" if seconds >= 60 else ""
    yield "requests", f"{stats.num_requests:,} in {seconds:,.1f} s{clock}"
    yield "rate", _rate(stats, manifest)
    yield "arrivals", _burstiness(stats)
    yield "prompts", _lengths(stats.prompt_tokens, stats.num_text_prompts, "given as text")
    yield "outputs", _lengths(stats.output_tokens, stats.num_natural_outputs, "until the model stops")
    if stats.reusable_tokens:
        share = percent(stats.prefix_reuse)
        yield "reuse", f"{share} of prompt tokens ({stats.reusable_tokens:,}) are prefixes that came before"
    if set(stats.priorities) - {0}:
        yield "priorities", _counts({str(priority): count for priority, count in stats.priorities.items()})
    if stats.num_sessions:
        yield "sessions", f"{stats.num_sessions:,}"
    if stats.tenants:
        yield "tenants", _counts(stats.tenants)


def _origin(manifest: Manifest) -> Iterator[tuple[str, str]]:
    """How it was made, and every change since."""
    yield "made", _fields(manifest.source) or "unknown: the file doesn't say"
    if manifest.transforms:
        yield "then", ", ".join(manifest.transforms)
    changes = {reason.replace("_", " "): count for reason, count in manifest.changes.items() if count}
    if changes:
        yield "changed", ", ".join(f"{count:,} {reason}" for reason, count in changes.items())


def _rate(stats: TraceStats, manifest: Manifest) -> str:
    realised = f"{significant(stats.request_rate)} requests/s"
    asked = manifest.request_rate
    return realised if asked is None else f"{realised}, made for {significant(asked)}"


def _burstiness(stats: TraceStats) -> str:
    if stats.gap_cv is None:
        return "all at once" if stats.num_requests > 1 and stats.span_ns == 0 else "too few to say how they come"
    parts = [_like_poisson(stats.gap_cv, stats.num_requests), f"gaps vary by {stats.gap_cv:.2f} (cv; Poisson 1)"]
    if stats.burstiness is not None:
        parts.append(f"burstiness {stats.burstiness:.2f}")
    if stats.dispersion is not None:
        parts.append(f"dispersion of 1 s counts {stats.dispersion:.2f}")
    return ", ".join(parts)


def _like_poisson(cv: float, count: int) -> str:
    """The cv of n exponential gaps has a standard error of about 1 / sqrt(n)."""
    if abs(cv - 1) <= max(0.05, 3 / math.sqrt(count)):
        return "like Poisson"
    if cv < 0.05:
        return "evenly spaced"
    return "smoother than Poisson" if cv < 1 else "burstier than Poisson"


def _lengths(lengths: LengthStats | None, others: int, what: str) -> str:
    rest = [f"{others:,} {what}"] if others else []
    return "; ".join([*([] if lengths is None else [_spread(lengths)]), *rest]) or "-"


def _spread(lengths: LengthStats) -> str:
    total = f"{lengths.total:,} tokens in all"
    if lengths.min == lengths.max:
        return f"{lengths.min:,} tokens each; {total}"
    percentiles = f"p50 {lengths.p50:,.0f}, p90 {lengths.p90:,.0f}, p99 {lengths.p99:,.0f}"
    return f"{lengths.min:,} to {lengths.max:,}, mean {lengths.mean:,.1f}, {percentiles}; {total}"


def _counts(counts: Mapping[str, int]) -> str:
    named = [f"{name}: {count:,}" for name, count in list(counts.items())[:MOST_NAMED]]
    more = len(counts) - len(named)
    return ", ".join(named) + (f", and {more:,} more" if more else "")


def _fields(values: Mapping[str, Any]) -> str:
    """`generated, arrival (poisson, request_rate 4), seed 0`; what is null is left out."""
    ordered = sorted(values.items(), key=lambda field: field[0] != "kind")
    return ", ".join(_field(name, value) for name, value in ordered if value is not None)


def _field(name: str, value: Any) -> str:
    if isinstance(value, Mapping):
        return f"{name} ({_fields(value)})"
    return str(value) if name == "kind" else f"{name} {value}"


def _chart(title: str, histogram: Histogram, unit: str, *, blocks: bool) -> Table:
    """Columns as high as their bin's count, with the highest count beside and the range below."""
    cells = max(1, CELLS // len(histogram.counts))
    columns = [float(count) for count in histogram.counts for _ in range(cells)]
    lines = sparkline(columns, len(columns), TALL)
    if not blocks:
        lines = [line.translate(_ASCII) for line in lines]
    low, high = (f"{edge:,.0f}" for edge in (histogram.edges[0], histogram.edges[-1]))
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 1, 0, 0))
    table.add_column(style="bold", no_wrap=True, min_width=8)
    table.add_column(justify="right", no_wrap=True, style="dim", min_width=6)
    table.add_column(no_wrap=True)
    for number, line in enumerate(lines):
        beside = f"{max(histogram.counts):,}" if number == 0 else "0" if number == len(lines) - 1 else ""
        table.add_row(title if number == 0 else "", beside, Text(line, "cyan"))
    table.add_row("", "", Text(low + f"{high} {unit}".rjust(max(1, len(columns) - len(low))), "dim"))
    return table
