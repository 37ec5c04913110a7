"""A trace on its way into a file: whether it may be written, one pass over it, what to say of it. Makes no request."""

from __future__ import annotations

import os
import stat
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path

import typer

from cbatch.errors import OutputError, UsageError
from cbatch.report.latencies import significant
from cbatch.report.text import percent
from cbatch.traces.formats.containers import name_of
from cbatch.traces.stats import LengthStats, TraceStats
from cbatch.traces.trace import SECOND, Manifest, TraceRequest
from cbatch.traces.writer import TraceWriter


def check_output(path: Path, force: bool) -> None:
    """Raise `OutputError` where `path` can't become a file, as far as can be told before the work."""
    if os.path.lexists(path) and not stat.S_ISREG(os.lstat(path).st_mode):  # /dev/stdout may lead to a file
        raise OutputError(f"{name_of(path)} isn't a plain file: give the name of a file to write")
    if os.path.lexists(path) and not force:
        raise OutputError(f"{name_of(path)} exists: give another name, or --force to replace it")
    if not os.path.isdir(path.parent):
        raise OutputError(f"there is no folder {name_of(path.parent)}: make it, or give another name")


def write_trace(path: Path, requests: Iterable[TraceRequest], manifest: Manifest, *, if_empty: str) -> TraceStats:
    """Write the requests and say what they are like; `manifest.changes` may count while they stream.

    Raises `UsageError` with `if_empty` where there are none, and as `TraceWriter` does; the file then stays as it was.
    """
    with TraceWriter(path, manifest) as writer:
        stats = TraceStats.of(_added(requests, writer))
        if stats.num_requests == 0:
            raise UsageError(if_empty)
    return stats


def _added(requests: Iterable[TraceRequest], writer: TraceWriter) -> Iterator[TraceRequest]:
    for request in requests:
        writer.add(request)
        yield request


def say_written(path: Path, stats: TraceStats, manifest: Manifest, changes: Mapping[str, int]) -> None:
    """A few lines on stdout: the file, its load beside what was asked, its tokens, and what was changed."""
    requests = "1 request" if stats.num_requests == 1 else f"{stats.num_requests:,} requests"
    typer.echo(f"{name_of(path)}: {requests}{_arrivals(stats, manifest)}")
    for line in _tokens(stats):
        typer.echo(f"  {line}")
    for reason, count in sorted(changes.items()):
        typer.echo(f"  changed: {count:,} {reason.replace('_', ' ')}")


def _arrivals(stats: TraceStats, manifest: Manifest) -> str:
    if stats.request_rate is None:
        return ", all at once" if stats.num_requests > 1 else ""
    asked = "" if manifest.request_rate is None else f" (asked: {significant(manifest.request_rate)})"
    return f" in {stats.span_ns / SECOND:,.1f} s, {significant(stats.request_rate)} requests/s{asked}"


def _tokens(stats: TraceStats) -> Iterator[str]:
    prompts = _lengths("prompts", stats.prompt_tokens, stats.num_text_prompts, "given as text")
    outputs = _lengths("outputs", stats.output_tokens, stats.num_natural_outputs, "until the model stops")
    yield f"{prompts}; {outputs}"
    if stats.reusable_tokens:
        yield f"reuse: {percent(stats.prefix_reuse)} of prompt tokens are prefixes that came before"


def _lengths(name: str, lengths: LengthStats | None, others: int, what: str) -> str:
    known = [] if lengths is None else [f"{lengths.total:,} tokens, mean {lengths.mean:,.1f}"]
    return f"{name}: {', '.join([*known, *([f'{others:,} {what}'] if others else [])])}"
