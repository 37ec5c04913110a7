"""The nouns of a trace: one request, and how the whole came to be. Knows no file format and no model."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

SECOND = 1_000_000_000


@dataclass(frozen=True, slots=True)
class TraceRequest:
    """One request of a trace: when it comes, and how much it asks for. Has a `prompt` or `prompt_tokens`, not both."""

    arrival_ns: int
    """Since the trace's beginning, ns, >= 0."""
    prompt: str | None = None
    """Text to send."""
    prompt_tokens: int | None = None
    """Length of a prompt to synthesise, tokens, >= 1; what the model adds in front (BOS) is counted in."""
    output_tokens: int | None = None
    """Forced output length, tokens, >= 1; None goes on until the model stops."""
    priority: int = 0
    """Lower runs earlier."""
    session_id: str | None = None
    prefix_ids: tuple[int, ...] = ()
    """Blocks that the synthesised prompt begins with: requests with equal leading ids share exactly those tokens."""
    prefix_block: int | None = None
    """Tokens of a block; the last one may reach beyond the prompt. Given where there are `prefix_ids`."""
    tenant: str | None = None


@dataclass(frozen=True, slots=True)
class Manifest:
    """How a trace was made; kept in its file, JSON values only."""

    source: Mapping[str, Any] = field(default_factory=dict)
    """What it was generated from (process, lengths, seed, ...), or imported from (file name, format)."""
    request_rate: float | None = None
    """Requests per second of the process that made it, after all transforms; None where no process did."""
    transforms: tuple[str, ...] = ()
    """Applied to it since, in order, such as `speedup 2`."""
    changes: Mapping[str, int] = field(default_factory=dict)
    """Requests whose values were changed or that were left out, by reason, such as `zero_outputs_raised_to_1`."""
