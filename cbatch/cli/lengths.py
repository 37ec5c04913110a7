"""`--prompt-len` and `--output-len`: lengths as `cbatch trace gen` takes them, under shorter names."""

from __future__ import annotations

from cbatch.errors import UsageError
from cbatch.traces.lengths import LengthDistribution
from cbatch.traces.parse import LengthColumn, parse_lengths


def parse_prompt_len(text: str) -> LengthDistribution:
    """Raises `UsageError`, and `InputError` for a trace without prompt lengths."""
    return _parse(text, "prompt_tokens", "--prompt-len")


def parse_output_len(text: str) -> LengthDistribution:
    """Raises `UsageError`, and `InputError` for a trace without output lengths."""
    return _parse(text, "output_tokens", "--output-len")


def _parse(text: str, column: LengthColumn, option: str) -> LengthDistribution:
    try:
        return parse_lengths(text, column)
    except UsageError as error:
        theirs = f"--{column.replace('_', '-')}"
        raise UsageError(str(error).replace(theirs, option, 1)) from None
