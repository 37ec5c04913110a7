"""The requests of a simulation: a trace of lengths, whose prompts are made of words that stand for any tokens."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterator
from dataclasses import replace
from itertools import product
from pathlib import Path

import numpy as np

from cbatch.cli.replay_options import ReplayOptions
from cbatch.errors import InputError, UsageError
from cbatch.sampling import SamplingParams
from cbatch.traces.jobs import OutputLengths, trace_jobs
from cbatch.traces.reader import read_trace
from cbatch.traces.synthesis import Synthesiser
from cbatch.traces.trace import SECOND, TraceRequest
from cbatch.traces.transform import speedup
from cbatch.types import Job, Request, Row, RowFault, RowRef, Tokens

_LETTERS = "abcdefghijklmnop"


class SimulatedTrace:
    """A trace file, looked through once. Raises `InputError` where it can't be simulated."""

    def __init__(self, options: ReplayOptions, path: Path) -> None:
        self.path = path
        self._options = options
        self._file = read_trace(path)
        self._transforms = options.transforms()
        self._lengths = OutputLengths(options.sampling())
        self._look()
        words = _Words()
        self._synthesise = Synthesiser(words, words.size, seed=options.seed).prompt

    def _look(self) -> None:
        self.needs: list[int] = []
        """KV cells that each request fills at most."""
        self.open_ended = 0
        """Requests of which the trace doesn't say how long their outputs get."""
        times = []
        for number, request in enumerate(self._transforms.apply(self._file, Counter()), 1):
            cells = self._lengths.cells(request)
            if cells is None:
                raise InputError(
                    f"{self.path}, request {number}: its prompt is a text, and no model is loaded that could count its "
                    "tokens: give a trace with prompt_tokens; a replay's requests.parquet tells them"
                )
            self.needs.append(cells)
            self.open_ended += request.output_tokens is None
            times.append(request.arrival_ns)
        if not times:
            fix = "give another trace" if self._transforms.window is None else "widen --window"
            raise InputError(f"{self.path} has no requests left to simulate: {fix}")
        manifest = self._transforms.apply_to_manifest(self._file.manifest, Counter())
        made_at = manifest.request_rate
        span_ns = times[-1] - times[0]
        self.transforms = list(manifest.transforms)
        self._own_rate = made_at
        self.base_rate = made_at if made_at is not None or span_ns == 0 else (len(times) - 1) * SECOND / span_ns
        """Requests per second at their own times."""

    def rate(self, asked: float | None) -> float | None:
        """Requests per second that are asked for, by an option or by the process that made the trace."""
        return self._own_rate if asked is None else None if asked == math.inf else asked

    def jobs(self, rate: float | None, most_tokens: int) -> Iterator[Job]:
        """In order of arrival, which is as the trace says, or stretched to a rate."""
        return trace_jobs(
            self._at(rate),
            self.path.name,
            encoder=_Encoder(),
            synthesise=self._synthesise,
            lengths=self._lengths,
            most_tokens=most_tokens,
        )

    def _at(self, rate: float | None) -> Iterator[TraceRequest]:
        requests = self._transforms.apply(self._file, Counter())
        if rate is None:
            return requests
        if rate == math.inf:
            return (replace(request, arrival_ns=0) for request in requests)
        if self.base_rate is None:
            raise UsageError(f"{self.path}: all requests come at once, so there are no times to stretch to a rate")
        return speedup(requests, rate / self.base_rate)


class _Words:
    """A vocabulary of 4,096 words, so that prompts begin alike by chance about as seldom as real ones do."""

    bos = None
    add_bos = False

    def __init__(self) -> None:
        words = ["".join(letters) for letters in product(_LETTERS, repeat=3)]
        self._texts = [f" {word}".encode() for word in words]
        self._numbers = {word: number for number, word in enumerate(words)}
        self.size = len(words)

    def tokenize(self, text: str, *, parse_special: bool) -> Tokens:  # noqa: ARG002 (Vocabulary)
        return np.array([self._numbers.get(word, 0) for word in text.split()], np.int32)

    def token_bytes(self, token: int) -> bytes:
        return self._texts[token]


class _Encoder:
    """Makes requests that only their lengths end."""

    def encode(self, row: Row) -> Request | RowFault:
        raise AssertionError(f"{row.ref.where} has text, which was refused before")

    def from_tokens(self, ref: RowRef, prompt: Tokens, sampling: SamplingParams, priority: int) -> Request:
        return Request(ref.id, prompt, sampling, priority, ref.arrival_ns)
