"""A trace file for replays and simulations: looked through once, and then read at any rate. Loads no model."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from cbatch.cli.replay_options import ReplayOptions
from cbatch.errors import InputError, UsageError
from cbatch.traces.jobs import OutputLengths
from cbatch.traces.reader import read_trace
from cbatch.traces.trace import SECOND, Manifest, TraceRequest
from cbatch.traces.transform import speedup


class TimedTrace:
    """Raises `InputError` for a trace that can't be read, or has no requests left to `verb` (replay, simulate)."""

    def __init__(self, options: ReplayOptions, path: Path, verb: str) -> None:
        self.path = path
        self.lengths = OutputLengths(options.sampling(), options.natural_lengths)
        self.changes: Counter[str] = Counter()
        """What transforms had to change."""
        self._file = read_trace(path)
        self._transforms = options.transforms()
        self._look(verb)

    def _look(self, verb: str) -> None:
        """One pass, before any model is loaded: a fault in the file shows now."""
        first_ns = self.last_ns = 0
        self.cells: list[int | None] = []
        """KV cells that each request fills at most; None where its prompt is a text."""
        self.open_ended = 0
        """Requests of which the trace doesn't say how long their outputs get."""
        for request in self._transforms.apply(self._file, self.changes):
            first_ns = request.arrival_ns if not self.cells else first_ns
            self.last_ns = request.arrival_ns
            self.cells.append(self.lengths.cells(request))
            self.open_ended += request.output_tokens is None
        if not self.cells:
            fix = "give another trace" if self._transforms.window is None else "widen --window"
            raise InputError(f"{self.path} has no requests left to {verb}: {fix}")
        made_at, span_ns = self.manifest.request_rate, self.last_ns - first_ns
        self._own_rate = made_at
        self.base_rate = made_at if made_at is not None or span_ns == 0 else (len(self.cells) - 1) * SECOND / span_ns
        """Requests per second at their own times."""

    @property
    def own_manifest(self) -> Manifest:
        """As the file has it."""
        return self._file.manifest

    @property
    def manifest(self) -> Manifest:
        """With the transforms."""
        return self._transforms.apply_to_manifest(self._file.manifest, self.changes)

    def rate(self, asked: float | None) -> float | None:
        """Requests per second that are asked for, by an option or by the process that made the trace."""
        return self._own_rate if asked is None else None if asked == math.inf else asked

    def at(self, rate: float | None) -> Iterator[TraceRequest]:
        """Its requests at their own times, all at once (inf), or stretched to a rate: the process stays what it is."""
        requests = self._transforms.apply(self._file, Counter())
        if rate is None:
            return requests
        if rate == math.inf:
            return (replace(request, arrival_ns=0) for request in requests)
        return speedup(requests, self._factor(rate))

    def span_s(self, rate: float | None) -> float | None:
        """From 0 to the last arrival at that rate; None where all come at once."""
        if rate == math.inf:
            return None
        return self.last_ns / 1e9 if rate is None else self.last_ns / 1e9 / self._factor(rate)

    def describe(self) -> dict[str, Any]:
        """JSON-ready, for run.json."""
        manifest = self.manifest
        return {
            "trace": str(self.path),
            "requests": len(self.cells),
            "made": dict(manifest.source),
            "request_rate": manifest.request_rate,
            "transforms": list(manifest.transforms),
            "changes": {**self.own_manifest.changes, **manifest.changes},
        }

    def _factor(self, rate: float) -> float:
        if self.base_rate is None:
            raise UsageError(f"{self.path}: all requests come at once, so there are no times to stretch to a rate")
        return rate / self.base_rate
