"""What `cbatch trace lint` and `cbatch trace show` do: read traces of any format and say what they are like."""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import asdict, replace

import typer

from cbatch.cli.ending import EXIT_ROWS_FAILED, shown
from cbatch.cli.trace_source import SourceOptions, manifest_of
from cbatch.errors import InputError, UsageError
from cbatch.report.trace_lint import print_findings
from cbatch.report.trace_show import print_trace_stats
from cbatch.traces.formats.containers import name_of
from cbatch.traces.formats.own import CBATCH
from cbatch.traces.importing import import_trace, in_order
from cbatch.traces.lint import lint
from cbatch.traces.reader import read_trace
from cbatch.traces.schema import manifest_to_json
from cbatch.traces.stats import TraceStats
from cbatch.traces.trace import Manifest


def lint_files(sources: Iterable[SourceOptions]) -> int:
    """Print the findings of each file; returns the exit code. One that can't be read costs the others nothing."""
    codes = set()
    for number, source in enumerate(sources):
        if number:
            typer.echo()
        codes.add(_lint(source))
    return min(codes - {0}, default=0)


def _lint(source: SourceOptions) -> int:
    try:
        findings = lint(source.file, source.named_format(), time_unit=source.time_unit, block_size=source.block_size)
    except InputError as error:
        typer.echo(f"cbatch: {error}", err=True)
        return error.exit_code
    typer.echo(name_of(source.file))
    print_findings(findings)
    return EXIT_ROWS_FAILED if any(finding.level == "error" for finding in findings) else 0


def show_file(source: SourceOptions, *, as_json: bool) -> None:
    """Print what the trace is like, as an import without options would make it."""
    stats, manifest = _stats(source)
    if stats.num_requests == 0:
        raise InputError(f"{name_of(source.file)} holds no request: there is nothing to show")
    if as_json:
        typer.echo(json.dumps(_record(stats, manifest), indent=2, allow_nan=False))
    else:
        shown(lambda: print_trace_stats(stats, manifest))


def _stats(source: SourceOptions) -> tuple[TraceStats, Manifest]:
    form = source.find_format()
    if form is CBATCH:
        trace = read_trace(source.file)
        return TraceStats.of(trace), trace.manifest
    if form.time is None:
        raise UsageError(
            f"{name_of(source.file)} holds {form.about}, which have no times to show: import it first, "
            "with cbatch trace import FILE -o trace.parquet --request-rate R"
        )
    imported = import_trace(
        source.file, source.named_format(), time_unit=source.time_unit, block_size=source.block_size
    )
    stats = TraceStats.of(in_order(imported.requests, imported.changes))
    return stats, replace(manifest_of(source, form), changes=imported.changes)


def _record(stats: TraceStats, manifest: Manifest) -> dict[str, object]:
    """JSON-ready."""
    figures = {**asdict(stats), "prefix_reuse": stats.prefix_reuse}
    return {**figures, "manifest": json.loads(manifest_to_json(manifest))}
