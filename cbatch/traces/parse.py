"""Option values of trace commands from text. Errors name the option and show a right value."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Literal

import numpy as np

from cbatch.errors import InputError, UsageError
from cbatch.priority import PRIORITIES
from cbatch.traces.lengths import Empirical, Exponential, Fixed, LengthDistribution, LogNormal, Uniform
from cbatch.traces.priorities import PriorityMix
from cbatch.traces.reader import read_trace
from cbatch.traces.trace import TraceRequest

LengthColumn = Literal["prompt_tokens", "output_tokens"]
LENGTHS = "128, uniform:A:B, lognormal:MEAN:SIGMA[:MIN:MAX], exponential:MEAN[:MAX] or empirical:TRACE.parquet"


def parse_lengths(text: str, column: LengthColumn) -> LengthDistribution:
    """Lengths as `LENGTHS` says, for `--prompt-tokens` or `--output-tokens`; an empirical one reads its trace here.

    Raises `UsageError`, and `InputError` for a trace without that column's values.
    """
    option = f"--{column.replace('_', '-')} {text}"
    kind, colon, rest = text.partition(":")
    if kind == "empirical" and rest:
        return _empirical(Path(rest), column)
    try:
        return _parametric(kind, rest.split(":")) if colon else Fixed(int(text))
    except ValueError:
        raise UsageError(f"{option}: give {LENGTHS}") from None
    except UsageError as error:
        raise UsageError(f"{option}: {error}") from None


def _parametric(kind: str, numbers: Sequence[str]) -> LengthDistribution:
    """Raises `ValueError` where the numbers aren't those of the kind."""
    if kind == "uniform" and len(numbers) == 2:
        return Uniform(int(numbers[0]), int(numbers[1]))
    if kind == "lognormal" and len(numbers) in (2, 4):
        return LogNormal(float(numbers[0]), float(numbers[1]), *map(int, numbers[2:]))
    if kind == "exponential" and len(numbers) in (1, 2):
        return Exponential(float(numbers[0]), *map(int, numbers[1:]))
    raise ValueError(kind)


def _empirical(path: Path, column: LengthColumn) -> Empirical:
    lengths = [_length(path, row, request, column) for row, request in enumerate(read_trace(path), 1)]
    if not lengths:
        raise InputError(f"{path} has no requests to take lengths from: give another trace")
    return Empirical(path, np.array(lengths, np.int64))


def _length(path: Path, row: int, request: TraceRequest, column: LengthColumn) -> int:
    length = request.prompt_tokens if column == "prompt_tokens" else request.output_tokens
    if length is None:
        raise InputError(f"{path}, row {row}: {column} is null: lengths can be taken only from a trace that has all")
    return length


def parse_priorities(text: str) -> PriorityMix:
    """`high:0.1,normal:0.8,low:0.1`, or whole numbers for names; weights need not sum to 1. Raises `UsageError`."""
    try:
        return PriorityMix(tuple(_priority(part) for part in text.split(",")))
    except ValueError:
        raise UsageError(
            f"--priorities {text}: give PRIORITY:WEIGHT with {', '.join(PRIORITIES)} or a whole number, "
            "such as high:0.1,normal:0.8,low:0.1"
        ) from None
    except UsageError as error:
        raise UsageError(f"--priorities {text}: {error}") from None


def _priority(part: str) -> tuple[int, float]:
    name, _, weight = part.strip().partition(":")
    return (PRIORITIES[name] if name in PRIORITIES else int(name)), float(weight)


def parse_window(text: str) -> tuple[float, float]:
    """`A:B` in seconds. Raises `UsageError`."""
    start, _, end = text.partition(":")
    try:
        return float(start), float(end)
    except ValueError:
        raise UsageError(f"--window {text}: give START:END in seconds, such as 60:120") from None
