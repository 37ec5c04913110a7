"""From a trace file of any format to a stream of requests, with a count of everything that was changed on the way."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path

from cbatch.errors import InputError, UsageError
from cbatch.traces.findings import Finding
from cbatch.traces.formats.containers import name_of
from cbatch.traces.formats.format import BadRow, Entry, Format
from cbatch.traces.inspection import Inspection
from cbatch.traces.source import TraceSource, open_source
from cbatch.traces.trace import TraceRequest

BAD_LINES = "bad_lines_left_out"
ZERO_OUTPUTS = "zero_outputs_raised_to_1"
ZERO_PROMPTS = "zero_prompts_raised_to_1"
SURPLUS_BLOCKS = "prefixes_cut_to_their_prompt"
NO_ARRIVAL = "requests_without_an_arrival_left_out"
REPLACED = "arrivals_replaced"
REORDERED = "requests_reordered"


@dataclass(slots=True)
class Imported:
    """A trace file being read. `changes` and `findings` are complete once `requests` is used up."""

    format: Format
    requests: Iterator[TraceRequest]
    """In file order, which may go back: hand them to `in_order` before they are written. Arrivals count from the first
    request, so one that arrives before it has a negative one."""
    changes: Counter[str]
    """Requests changed or left out, by reason, for a manifest."""
    inspection: Inspection

    @property
    def findings(self) -> list[Finding]:
        """What was noticed so far, the most serious first."""
        return self.inspection.findings()


def import_trace(
    path: Path | str,
    as_format: Format | None = None,
    *,
    time_unit: str | None = None,
    block_size: int | None = None,
    arrivals: Iterator[int] | None = None,
    count_tokens: Callable[[str], int] | None = None,
    on_bad: str = "skip",
) -> Imported:
    """Read a trace file as a stream; of past requests nothing is kept but what the sessions of a chat need.

    `as_format` overrides detection; `time_unit` (`s` or `ms`) and `block_size` (tokens) override what the format says.
    `arrivals` (ns, not decreasing) gives the times, which formats without times need; any others are replaced by them.
    `count_tokens` gives output lengths where a format has replies as text.
    A line that can't be read is counted and left out, or ends the import where `on_bad` is `raise`.

    Raises `UsageError` for options that don't fit the format, `InputError` for a file that can't be read or in which no
    line can be; the latter also while streaming.
    """
    source = open_source(Path(path), as_format, time_unit=time_unit, block_size=block_size, count_tokens=count_tokens)
    if source.format.time is None and arrivals is None:
        found = f"{name_of(source.path)} holds {source.format.about}, which have no times"
        raise UsageError(f"{found}: give an arrival process, such as --request-rate")
    imported = Imported(source.format, iter(()), Counter(), source.inspection())
    imported.requests = _requests(source, imported, arrivals, on_bad)
    return imported


def in_order(requests: Iterable[TraceRequest], changes: Counter[str]) -> list[TraceRequest]:
    """All requests, sorted by arrival (those at one time stay as they are) and counted from the first.

    Holds them all in memory. Counts in `changes` those that arrive before one above them.
    """
    kept = list(requests)
    latest_ns = None
    for request in kept:
        if latest_ns is not None and request.arrival_ns < latest_ns:
            changes[REORDERED] += 1
        else:
            latest_ns = request.arrival_ns
    kept.sort(key=lambda request: request.arrival_ns)
    if kept and (first_ns := kept[0].arrival_ns) < 0:
        kept = [replace(request, arrival_ns=request.arrival_ns - first_ns) for request in kept]
    return kept


def _requests(
    source: TraceSource, imported: Imported, arrivals: Iterator[int] | None, on_bad: str
) -> Iterator[TraceRequest]:
    arrival_of = _own_arrivals(source.format) if arrivals is None else _given_arrivals(arrivals, imported)
    for entry in _good_entries(source, imported, on_bad):
        if entry.request is None:
            continue
        arrival_ns = arrival_of(entry.request)
        if arrival_ns is None:
            imported.changes[NO_ARRIVAL] += 1
        else:
            yield _mended(replace(entry.request, arrival_ns=arrival_ns), source.format, imported.changes)


def _good_entries(source: TraceSource, imported: Imported, on_bad: str) -> Iterator[Entry]:
    """Counts and shows the inspection everything else."""
    inspection = imported.inspection
    for where, entry in source.entries():
        if not isinstance(entry, BadRow):
            inspection.see(where, entry)
            if entry.changes:
                imported.changes.update(entry.changes)
            yield entry
        elif on_bad == "raise":
            raise InputError(f"{where}: {entry}")
        else:
            inspection.see_bad(f"{where}: {entry}")
            imported.changes[BAD_LINES] += 1
    if not inspection.num_entries:
        name = name_of(source.path)
        raise InputError(
            f"{name}: none of {inspection.num_bad:,} lines can be read as {source.format}: {inspection.bad_examples}"
            if inspection.num_bad
            else f"{name} holds no request: give a trace with at least one"
        )


def _own_arrivals(form: Format) -> Callable[[TraceRequest], int | None]:
    """The file's times, from the first one on where the format says so."""
    first_ns = None if form.from_first else 0

    def arrival_of(request: TraceRequest) -> int:
        nonlocal first_ns
        if first_ns is None:
            first_ns = request.arrival_ns
        return request.arrival_ns - first_ns

    return arrival_of


def _given_arrivals(arrivals: Iterator[int], imported: Imported) -> Callable[[TraceRequest], int | None]:
    """One of `arrivals` for each request until they end."""

    def arrival_of(_: TraceRequest) -> int | None:
        arrival_ns = next(arrivals, None)
        if arrival_ns is not None and imported.format.time is not None:
            imported.changes[REPLACED] += 1
        return arrival_ns

    return arrival_of


def _mended(request: TraceRequest, form: Format, changes: Counter[str]) -> TraceRequest:
    """The request as a trace can hold it, each change counted."""
    if request.prompt_tokens == 0:
        changes[ZERO_PROMPTS] += 1
        request = replace(request, prompt_tokens=1)
    if request.output_tokens == 0:
        changes[ZERO_OUTPUTS] += 1
        request = replace(request, output_tokens=1)
    if form.hashes is None or request.prompt_tokens is None or request.prefix_block is None:
        return request
    most = -(-request.prompt_tokens // request.prefix_block)
    if len(request.prefix_ids) > most:
        changes[SURPLUS_BLOCKS] += 1
        request = replace(request, prefix_ids=request.prefix_ids[:most])
    return request
