"""What `cbatch trace prompts` does: a trace's prompts as text, in OpenAI Batch lines that any server takes.

Format: https://platform.openai.com/docs/api-reference/batch/request-input
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

import typer

from cbatch.cli.trace_file import check_output
from cbatch.cli.vocabulary import vocabulary
from cbatch.errors import InputError, OutputError
from cbatch.outputs.files import publish, temporary
from cbatch.traces.formats.containers import name_of
from cbatch.traces.reader import read_trace
from cbatch.traces.synthesis import Synthesiser
from cbatch.traces.trace import TraceRequest

MAX_PROMPT = 10_000_000
"""Tokens of a prompt to write. A trace may ask for 2**31 - 1, which memory doesn't hold."""


@dataclass(frozen=True, slots=True, kw_only=True)
class PromptsOptions:
    """`cbatch trace prompts`'s options, one field each; see its help."""

    trace: Path
    output: Path
    model: str
    seed: int
    force: bool


def write_prompts(options: PromptsOptions) -> None:
    """Write a line for each request, in order of arrival, and say how many."""
    check_output(options.output, options.force)
    trace = read_trace(options.trace)
    with vocabulary(options.model) as (model, tokenizer):
        synthesiser = Synthesiser(tokenizer, model.n_vocab, seed=options.seed)
        with _replacing(options.output) as file:
            written = _write(file, _texts(trace, synthesiser, name_of(options.trace)))
    typer.echo(f"{name_of(options.output)}: {written:,} prompts for /v1/completions")


def _texts(trace: Iterable[TraceRequest], synthesiser: Synthesiser, name: str) -> Iterator[tuple[TraceRequest, str]]:
    """Each request with its prompt."""
    for number, request in enumerate(trace, 1):
        if request.prompt_tokens is not None and request.prompt_tokens > MAX_PROMPT:
            raise InputError(
                f"{name}, row {number}: prompt_tokens is {request.prompt_tokens}, more than any model takes: "
                "make a shorter trace, with cbatch trace import --scale-lengths"
            )
        text = request.prompt if request.prompt is not None else synthesiser.text(synthesiser.prompt(request, number))
        if not text:
            raise InputError(
                f"{name}, row {number}: prompt_tokens is {request.prompt_tokens}, which is the model's BOS alone, "
                "and no text makes that: give a trace with prompts of 2 tokens or more"
            )
        yield request, text


def _write(file: IO[str], texts: Iterable[tuple[TraceRequest, str]]) -> int:
    number = 0
    for number, (request, text) in enumerate(texts, 1):
        line = {"custom_id": str(number), "method": "POST", "url": "/v1/completions", "body": _body(request, text)}
        file.write(json.dumps(line, ensure_ascii=False) + "\n")
    return number


def _body(request: TraceRequest, text: str) -> dict[str, Any]:
    body: dict[str, Any] = {"prompt": text}
    if request.output_tokens is not None:
        body |= {"max_tokens": request.output_tokens, "ignore_eos": True}
    if request.priority != 0:
        body["priority"] = request.priority
    return body


@contextmanager
def _replacing(path: Path) -> Iterator[IO[str]]:
    """A text file that becomes `path` at a good end, and goes at any other. Raises `OutputError`."""
    try:
        with open(temporary(path), "w", encoding="utf-8", newline="\n") as file:
            yield file
        publish(path)
    except OSError as error:
        raise OutputError(f"{name_of(path)} can't be written: {error.strerror or error}") from error
    finally:
        with suppress(OSError):
            os.unlink(temporary(path))
