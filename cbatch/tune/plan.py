"""What a job will take, before it begins: plain figures. Knows neither engine nor terminal."""

from __future__ import annotations

from dataclasses import dataclass

from cbatch.metrics.preview import Preview, Range


@dataclass(frozen=True, slots=True)
class JobTime:
    """By the cost model of a profile."""

    rows: int
    """Of the job, or of the window where nobody can tell how many there are."""
    known_rows: bool
    prompt_tokens: int
    """Of all rows together."""
    output_tokens: Range
    """Of a row, in the mean."""
    seconds: Range
    """For all rows, `doubt` included."""
    doubt: float
    """By what share the model may be off."""
    measured: str
    """When, such as `2026-11-30`."""


@dataclass(frozen=True, slots=True)
class Suggestion:
    """What would save time, by the model."""

    option: str
    saved: float
    """Share of the time."""


@dataclass(frozen=True, slots=True)
class Plan:
    """A job that hasn't begun."""

    preview: Preview
    """Its `estimate` is there where rows were tried."""
    settings: str
    """Where the engine's settings come from."""
    time: JobTime | None
    """None without a profile that fits, or without rows that can be run."""
    suggestions: tuple[Suggestion, ...]
    """Most first."""
