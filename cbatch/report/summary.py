"""A finished run, on stdout: for people as a table, for programs as JSON. Knows no progress."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.run import RunSummary
from cbatch.report.text import duration, latency, lines, percent, rate

WIDTH = 80
_LATENCIES = {"queue_ns": "queue", "ttft_ns": "TTFT", "tpot_ns": "TPOT", "e2e_ns": "end to end"}

Paths = Mapping[str, "str | os.PathLike[str]"]
"""What was written, by what it is: `{"results": "prompts.cbatch/results"}`."""


def summary_json(summary: RunSummary, paths: Paths, notes: Sequence[str] = ()) -> str:
    """One JSON object in one line: the fields of `RunSummary.to_dict()`, `paths` and `notes`."""
    written = {name: os.fspath(path) for name, path in paths.items()}
    return json.dumps({**summary.to_dict(), "paths": written, "notes": list(notes)}, allow_nan=False)


def print_summary(
    summary: RunSummary, paths: Paths, notes: Sequence[str] = (), *, console: Console | None = None
) -> None:
    """At most 80 columns wide, but for paths, which aren't cut or wrapped."""
    console = console if console is not None else Console()
    width = min(WIDTH, console.width)
    console.print(_facts(summary), width=width)
    if summary.rows_ok > 0:
        console.print()
        console.print(_latency_table(summary.latencies), width=width)
        for reason in _footnotes(summary.latencies):
            console.print(Text(reason, style="dim"), width=width)
    for title, entries in (
        ("Notes", list(notes)),
        ("Written", [f"{name:<10}{os.fspath(p)}" for name, p in paths.items()]),
    ):
        _list(console, title, entries)


def _facts(summary: RunSummary) -> Table:
    table = Table(box=None, show_header=False, pad_edge=False, padding=(0, 2, 0, 0))
    table.add_column(style="bold", no_wrap=True)
    table.add_column()
    for name, text in (
        ("rows", _rows(summary)),
        ("finished", ", ".join(f"{reason} {count:,}" for reason, count in summary.finish_reasons.items()) or "-"),
        ("tokens", f"{summary.prompt_tokens:,} prompt, {summary.output_tokens:,} output"),
        ("time", _time(summary)),
        ("throughput", _throughput(summary)),
        ("kernels", _kernels(summary)),
        ("batching", _batching(summary)),
    ):
        table.add_row(name, Text(text))
    return table


def _rows(summary: RunSummary) -> str:
    text = f"{summary.rows_ok:,} of {summary.rows_total:,} answered, {summary.rows_failed:,} failed"
    return text + (f", {summary.rows_cancelled:,} cancelled" if summary.rows_cancelled else "")


def _time(summary: RunSummary) -> str:
    whole, engine = (ns / 1e9 for ns in (summary.duration_ns, summary.engine_ns))
    clock = f" ({duration(whole)})" if whole >= 60 else ""
    return f"{whole:,.1f} s{clock}; engine {engine:,.1f} s, {percent(summary.llama_share)} of it in llama_decode"


def _throughput(summary: RunSummary) -> str:
    output, total = rate(summary.output_tokens_per_s), rate(summary.total_tokens_per_s)
    return f"{output} output tok/s, {total} tok/s with prompts, {rate(summary.requests_per_s)} rows/s"


def _kernels(summary: RunSummary) -> str:
    prefill, decode = rate(summary.prefill_tokens_per_s), rate(summary.decode_tokens_per_s)
    return f"prefill {prefill} tok/s, decode {decode} tok/s, {summary.steps:,} steps"


def _batching(summary: RunSummary) -> str:
    running = rate(summary.concurrency)
    slots, kv = percent(summary.slot_utilisation), percent(summary.kv_utilisation)
    return f"{running} rows at once, slots {slots} busy, {kv} of reserved KV used"


def _latency_table(latencies: Mapping[str, Distribution]) -> Table:
    table = Table(box=None, pad_edge=False, padding=(0, 2, 0, 0), header_style="dim")
    table.add_column("latency", style="bold", no_wrap=True)
    for name in ("mean", "p50", "p90", "p99"):
        table.add_column(name, justify="right", no_wrap=True, min_width=9)
    for name, title in _LATENCIES.items():
        values = latencies[name]
        table.add_row(title, *map(latency, (values.mean_ns, values.p50_ns, values.p90_ns, values.p99_ns)))
    return table


def _footnotes(latencies: Mapping[str, Distribution]) -> list[str]:
    """Why a figure is missing; each reason once."""
    reasons = (latencies[name].p99_hidden for name in _LATENCIES)
    return list(dict.fromkeys(reason for reason in reasons if reason is not None))


def _list(console: Console, title: str, entries: Sequence[str]) -> None:
    if not entries:
        return
    console.print()
    console.print(Text(title, style="bold"))
    for entry in entries:
        shown = lines(entry).encode(console.encoding, "backslashreplace").decode(console.encoding)
        console.print(Text("  " + shown), soft_wrap=True)
