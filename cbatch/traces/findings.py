"""What there is to say about a trace file: one finding. Knows no file."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

LEVELS = ("error", "warning", "info")
"""Most serious first. An error costs requests, a warning may make the trace another workload than was meant."""


@dataclass(frozen=True, slots=True)
class Finding:
    """Something about a file that who imports it should know, with figures, what the importer does, and the fix."""

    level: str
    """One of `LEVELS`."""
    code: str
    """Machine-readable: `time_format`, `quantised_times`, `block_size`, ..."""
    message: str


def by_level(findings: Iterable[Finding]) -> list[Finding]:
    """The most serious first, else as they came."""
    return sorted(findings, key=lambda finding: LEVELS.index(finding.level))


def duration(ns: float) -> str:
    """A span of time in a message, to three digits."""
    seconds = ns / 1e9
    return f"{seconds:,.0f} s" if seconds >= 1000 else f"{seconds:.3g} s"
