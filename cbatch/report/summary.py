"""A finished run, on stdout: for people as a table, for programs as JSON. Knows no progress."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.run import RunSummary
from cbatch.report.kv import kv_facts
from cbatch.report.layout import Paths, facts, figures, json_line, print_endings, width_of
from cbatch.report.text import duration, latency, percent, rate

_LATENCIES = {"queue_ns": "queue", "ttft_ns": "TTFT", "tpot_ns": "TPOT", "e2e_ns": "end to end"}


def summary_json(summary: RunSummary, paths: Paths, notes: Sequence[str] = ()) -> str:
    """One JSON object in one line: the fields of `RunSummary.to_dict()`, `paths` and `notes`."""
    return json_line(summary.to_dict(), paths, notes)


def print_summary(
    summary: RunSummary, paths: Paths, notes: Sequence[str] = (), *, console: Console | None = None
) -> None:
    """At most 80 columns wide, but for paths, which aren't cut or wrapped."""
    console = console if console is not None else Console()
    width = width_of(console)
    console.print(_facts(summary), width=width)
    if summary.rows_ok > 0:
        console.print()
        console.print(_latency_table(summary.latencies), width=width)
        for reason in _footnotes(summary.latencies):
            console.print(Text(reason, style="dim"), width=width)
    print_endings(console, notes, paths)


def _facts(summary: RunSummary) -> Table:
    return facts(
        (
            ("rows", _rows(summary)),
            ("finished", ", ".join(f"{reason} {count:,}" for reason, count in summary.finish_reasons.items()) or "-"),
            ("tokens", f"{summary.prompt_tokens:,} prompt, {summary.output_tokens:,} output"),
            ("time", _time(summary)),
            ("throughput", _throughput(summary)),
            ("kernels", _kernels(summary)),
            ("batching", _batching(summary)),
            *kv_facts(summary),
        )
    )


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
    table = figures("latency", ("mean", "p50", "p90", "p99"), min_width=9)
    for name, title in _LATENCIES.items():
        values = latencies[name]
        table.add_row(title, *map(latency, (values.mean_ns, values.p50_ns, values.p90_ns, values.p99_ns)))
    return table


def _footnotes(latencies: Mapping[str, Distribution]) -> list[str]:
    """Why a figure is missing; each reason once."""
    reasons = (latencies[name].p99_hidden for name in _LATENCIES)
    return list(dict.fromkeys(reason for reason in reasons if reason is not None))
