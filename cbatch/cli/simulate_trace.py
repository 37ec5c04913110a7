"""The requests of a simulation: a trace of lengths, whose prompts are made of words that stand for any tokens."""

from __future__ import annotations

from collections.abc import Iterator
from itertools import product
from pathlib import Path

import numpy as np

from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.timed_trace import TimedTrace
from cbatch.errors import InputError
from cbatch.sampling import SamplingParams
from cbatch.traces.jobs import trace_jobs
from cbatch.traces.synthesis import Synthesiser
from cbatch.types import Job, Request, Row, RowFault, RowRef, Tokens

_LETTERS = "abcdefghijklmnop"


class SimulatedTrace:
    """A trace file, looked through once. Raises `InputError` where it can't be simulated."""

    def __init__(self, options: ReplayOptions, path: Path) -> None:
        self.path = path
        self._trace = TimedTrace(options, path, "simulate")
        self.needs = list(self._needs())
        """KV cells that each request fills at most."""
        self.open_ended = self._trace.open_ended
        self.transforms = list(self._trace.manifest.transforms)
        self.base_rate = self._trace.base_rate
        self.rate = self._trace.rate
        self.describe = self._trace.describe
        words = _Words()
        self._synthesise = Synthesiser(words, words.size, seed=options.seed).prompt

    def _needs(self) -> Iterator[int]:
        for number, cells in enumerate(self._trace.cells, 1):
            if cells is None:
                raise InputError(
                    f"{self.path}, request {number}: its prompt is a text, and no model is loaded that could count its "
                    "tokens: give a trace with prompt_tokens; a replay's requests.parquet tells them"
                )
            yield cells

    def jobs(self, rate: float | None, most_tokens: int) -> Iterator[Job]:
        """In order of arrival, which is as the trace says, or stretched to a rate."""
        return trace_jobs(
            self._trace.at(rate),
            self.path.name,
            encoder=_Encoder(),
            synthesise=self._synthesise,
            lengths=self._trace.lengths,
            most_tokens=most_tokens,
        )


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
