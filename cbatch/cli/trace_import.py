"""What `cbatch trace import` does: a trace file of any format becomes cbatch's own, and every change is told."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path

import typer

from cbatch.cli.ending import EXIT_ROWS_FAILED
from cbatch.cli.trace_arrivals import arrival_process
from cbatch.cli.trace_file import check_output, say_written, write_trace
from cbatch.cli.trace_source import SourceOptions, manifest_of
from cbatch.cli.vocabulary import vocabulary
from cbatch.errors import UsageError
from cbatch.report.trace_lint import print_findings
from cbatch.traces.arrivals import ArrivalProcess
from cbatch.traces.formats.containers import name_of
from cbatch.traces.formats.format import Format
from cbatch.traces.formats.sharegpt import SHAREGPT
from cbatch.traces.importing import Imported, import_trace, in_order
from cbatch.traces.parse import parse_window
from cbatch.traces.streams import stream
from cbatch.traces.trace import Manifest
from cbatch.traces.transform import Transforms

_ON_TIMES = ("no_times", "quantised_times", "times_go_back")
"""Findings that say nothing any more where the times are replaced."""


@dataclass(frozen=True, slots=True, kw_only=True)
class ImportOptions(SourceOptions):
    """`cbatch trace import`'s options, one field each; see its help."""

    output: Path
    arrival: str | None
    request_rate: float | None
    burstiness: float | None
    seed: int
    window: str | None
    limit: int | None
    speedup: float | None
    scale_lengths: float | None
    model: str | None
    strict: bool
    force: bool

    def process(self) -> ArrivalProcess | None:
        """None keeps the file's own times."""
        if self.arrival is None and self.request_rate is None and self.burstiness is None:
            return None
        return arrival_process(self.arrival, self.request_rate, self.burstiness)

    def transforms(self) -> Transforms:
        window = None if self.window is None else parse_window(self.window)
        return Transforms(window, self.limit, self.speedup, self.scale_lengths)


def import_file(options: ImportOptions) -> int:
    """Write the trace, and say what was found and changed; returns the exit code."""
    check_output(options.output, options.force)
    transforms, process = options.transforms(), options.process()
    form = options.find_format()
    with _token_counter(options.model, form) as count_tokens:
        imported = import_trace(
            options.file,
            options.named_format(),
            time_unit=options.time_unit,
            block_size=options.block_size,
            arrivals=None if process is None else process.arrivals(stream(options.seed, "arrivals")),
            count_tokens=count_tokens,
            on_bad="raise" if options.strict else "skip",
        )
        return _write(options, imported, _origin(options, form, process), transforms)


def _write(options: ImportOptions, imported: Imported, origin: Manifest, transforms: Transforms) -> int:
    changes = imported.changes
    changes.update(origin.changes)
    manifest = transforms.apply_to_manifest(origin, changes)
    requests = transforms.apply(in_order(imported.requests, changes), changes)
    fix = "cbatch trace lint says why" if options.window is None else "widen --window"
    if_empty = f"no request of {name_of(options.file)} is left to write: {fix}"
    stats = write_trace(options.output, requests, manifest, if_empty=if_empty)
    findings = [finding for finding in imported.findings if options.process() is None or finding.code not in _ON_TIMES]
    typer.echo(name_of(options.file))
    print_findings(findings)
    say_written(options.output, stats, manifest, changes - Counter(origin.changes))
    return EXIT_ROWS_FAILED if any(finding.level == "error" for finding in findings) else 0


def _origin(options: ImportOptions, form: Format, process: ArrivalProcess | None) -> Manifest:
    """The manifest before the transforms."""
    manifest = manifest_of(options, form)
    if options.model is not None:
        manifest = replace(manifest, source={**manifest.source, "replies_counted_by": name_of(Path(options.model))})
    if process is None:
        return manifest
    given = [f"{name} {value:g}" for name, value in process.describe().items() if isinstance(value, float)]
    arrivals = " ".join(["arrivals", process.kind, *given, f"seed {options.seed}"])
    return replace(manifest, request_rate=process.rate, transforms=(*manifest.transforms, arrivals))


@contextmanager
def _token_counter(model: str | None, form: Format) -> Iterator[Callable[[str], int] | None]:
    """Counts the tokens of a reply, where there are replies to count."""
    if model is None:
        yield None
        return
    if form is not SHAREGPT:
        raise UsageError(
            f"--model counts the replies of ShareGPT conversations, and this is {form.about}: leave it out"
        )
    with vocabulary(model) as (_, tokenizer):
        yield lambda text: int(tokenizer.tokenize(text, parse_special=False).size)
