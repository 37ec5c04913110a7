"""A trace file to look into: how its options say to read it, and how it came to be. Changes nothing."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from cbatch.traces.detect import detect, format_named
from cbatch.traces.formats.containers import name_of
from cbatch.traces.formats.format import Format
from cbatch.traces.formats.own import CBATCH
from cbatch.traces.reader import read_trace
from cbatch.traces.trace import Manifest


@dataclass(frozen=True, slots=True, kw_only=True)
class SourceOptions:
    """What every command that reads a trace of any format takes, one field an option."""

    file: Path
    format: str | None
    time_unit: str | None
    block_size: int | None

    def named_format(self) -> Format | None:
        """As given; None leaves it to detection."""
        return None if self.format is None else format_named(self.format)

    def find_format(self) -> Format:
        """As given or detected."""
        named = self.named_format()
        return detect(self.file) if named is None else named


def manifest_of(options: SourceOptions, form: Format) -> Manifest:
    """How the trace in the file came to be: what it says itself, or that it is imported from there."""
    if form is CBATCH:
        return read_trace(options.file).manifest
    how = {"time_unit": options.time_unit, "block_size": options.block_size}
    given = {name: value for name, value in how.items() if value is not None}
    return Manifest({"kind": "imported", "file": name_of(Path(options.file.name)), "format": form.name, **given})
