"""Where a replay's requests come from, at any rate: a trace, or prompts with an arrival process."""

from __future__ import annotations

import os
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, replace
from itertools import islice
from pathlib import Path
from typing import Any, Protocol

from cbatch.cli import parts
from cbatch.cli.replay_notes import unused
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.timed_trace import TimedTrace
from cbatch.clock import Clock
from cbatch.errors import InputError, UsageError
from cbatch.inputs import read_rows
from cbatch.inputs.forms import form_of
from cbatch.llama.encode import Encoder
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.traces.detect import detect, look
from cbatch.traces.formats.format import Format
from cbatch.traces.formats.own import CBATCH
from cbatch.traces.formats.values import show
from cbatch.traces.jobs import trace_jobs
from cbatch.traces.streams import stream
from cbatch.traces.synthesis import Synthesiser
from cbatch.traces.transform import Transforms
from cbatch.types import Job, Row, RowFault

PROMPTS = ("prompts", "openai")
"""Formats that `cbatch run` reads."""
_TABLES = ("csv", "parquet")
"""Forms of prompts whose columns are told as those of traces are."""
_MOST_CUT = 1 << 20
"""Tokens of the longest prompt that is made up only to be cut to the context."""


@dataclass(frozen=True, slots=True)
class Load:
    """One replay's requests."""

    jobs: Iterator[Job]
    """In order of arrival, which counts from 0."""
    total: int | None
    """Where it is known."""
    span_s: float | None
    """From 0 to the last arrival, where that is known."""
    rate: float | None
    """Requests per second asked for, by options or by the process that made the trace; None if no rate was."""


class Source(Protocol):
    """Can be read once for every rate of a sweep."""

    def load(self, rate: float | None, model: Model, tokenizer: Tokenizer, encoder: Encoder, limit: int) -> Load:
        """The requests at `rate` per second (inf: all at once), or at their own times.

        A context holds `limit` tokens of one: what is longer needn't be made.
        """
        ...

    @property
    def base_rate(self) -> float | None:
        """Requests per second at their own times."""
        ...

    @property
    def notes(self) -> Sequence[str]:
        """What the user should know of how the requests are played."""
        ...

    @property
    def needs(self) -> list[int] | None:
        """KV cells that each request needs; None where that is known only once they are tokens."""
        ...

    def describe(self) -> dict[str, Any]:
        """JSON-ready, for run.json."""
        ...


def open_source(options: ReplayOptions, clock: Clock) -> Source:
    """Raises `InputError` or `UsageError` for what can't be replayed."""
    if not options.sources:
        raise UsageError("there is nothing to replay: give a trace, or a file of prompts")
    forms = {path: _trace_format(path) for path in map(Path, options.sources) if os.path.isfile(path)}
    traces = {path: form for path, form in forms.items() if form is not None}
    if not traces:
        return PromptSource(options, clock)
    path, form = next(iter(traces.items()))
    if len(options.sources) > 1:
        raise UsageError(f"{path} is a trace, and there are {len(options.sources)} inputs: give one trace")
    if form.name == CBATCH.name:
        return TraceSource(options, path)
    raise InputError(f"{path} holds {form.about}: import it first, with cbatch trace import {path} -o trace.parquet")


def _trace_format(path: Path) -> Format | None:
    """What kind of trace a file is; None for prompts, and for what can be told only row by row."""
    try:
        form = detect(path)
    except InputError:
        _check_table(path)
        return None
    return None if form.name in PROMPTS else form


def _check_table(path: Path) -> None:
    """Raises `InputError` where a file that is no trace has columns, and they aren't those of prompts either."""
    if form_of(str(path)) not in _TABLES:
        return
    try:
        columns = look(path).columns
    except InputError:
        return  # compressed, or damaged, which whoever reads prompts can tell
    if "arrival_s" in columns or not {"prompt", "messages"} & set(columns):
        found = ", ".join(map(show, columns[:12])) or "no columns"
        raise InputError(
            f"{path} has {found}: neither a trace (arrival_s, and prompt or prompt_tokens) nor prompts (prompt or "
            "messages); rename its columns, or see cbatch trace import --help for other traces"
        )


class TraceSource:
    """A trace file."""

    def __init__(self, options: ReplayOptions, path: Path) -> None:
        if options.burstiness is not None:
            raise UsageError(
                f"--burstiness is for prompts, and {path} has arrival times of its own, which a rate only stretches: "
                "leave it out, or make another trace with cbatch trace gen --burstiness"
            )
        self._options = options
        self._trace = TimedTrace(options, path, "replay")
        cells = self._trace.cells
        known = [count for count in cells if count is not None]
        self.needs = known if len(known) == len(cells) else None
        self.base_rate = self._trace.base_rate
        self.notes = [*unused(options, len(cells) - self._trace.open_ended)]

    def load(self, rate: float | None, model: Model, tokenizer: Tokenizer, encoder: Encoder, limit: int) -> Load:
        trace = self._trace
        jobs = trace_jobs(
            trace.at(rate),
            trace.path.name,
            encoder=encoder,
            synthesise=Synthesiser(tokenizer, model.n_vocab, seed=self._options.seed).prompt,
            lengths=trace.lengths,
            most_tokens=max(limit, _MOST_CUT * (self._options.on_overflow != "error")),
        )
        return Load(jobs, len(trace.cells), trace.span_s(rate), trace.rate(rate))

    def describe(self) -> dict[str, Any]:
        return self._trace.describe()


class PromptSource:
    """Rows as `cbatch run` reads them, given arrival times."""

    base_rate: float | None = None
    needs: list[int] | None = None
    notes: Sequence[str] = ()

    def __init__(self, options: ReplayOptions, clock: Clock) -> None:
        read_rows(options.sources, defaults=options.sampling(), clock=clock)  # raises for what can't be read
        if options.transforms() != Transforms(limit=options.limit):
            raise UsageError("--window, --speedup and --scale-lengths are for traces: prompts have no times or lengths")
        if options.natural_lengths:
            raise UsageError("--natural-lengths is for traces: prompts go on until the model stops anyway")
        if options.prompt_rate is None and options.rates is None and not options.find_capacity:
            found = ", ".join(options.sources)
            raise UsageError(
                f"{found}: prompts have no arrival times; give --request-rate, such as 2 a second, "
                "or inf with --max-concurrency for a closed loop"
            )
        self._options = options
        self._clock = clock
        once = next((source for source in options.sources if options.reads_again and not _rereadable(source)), None)
        if once is not None:
            name = "standard input" if once == "-" else once
            raise UsageError(f"{name} can be read once only: give a file for several replays")

    def load(
        self,
        rate: float | None,
        model: Model,  # noqa: ARG002 (of Source)
        tokenizer: Tokenizer,  # noqa: ARG002
        encoder: Encoder,
        limit: int,  # noqa: ARG002
    ) -> Load:
        assert rate is not None
        options = self._options
        rows = read_rows(options.sources, defaults=options.sampling(), clock=self._clock)
        process = options.process(rate)
        arrivals = process.arrivals(stream(options.seed, "arrivals"))
        timed = _timed(islice(rows, options.limit), arrivals)
        return Load(parts.encode_rows(timed, encoder), None, None, process.rate)

    def describe(self) -> dict[str, Any]:
        return {"prompts": list(self._options.sources)}


def _rereadable(source: str) -> bool:
    """Not so a pipe or a terminal, which is empty the second time."""
    return source != "-" and not Path(source).is_fifo() and not Path(source).is_char_device()


def _timed(rows: Iterable[Row | RowFault], arrivals: Iterator[int]) -> Iterator[Row | RowFault]:
    for row, arrival_ns in zip(rows, arrivals, strict=False):
        yield replace(row, ref=replace(row.ref, arrival_ns=arrival_ns))
