"""What one pass over the entries of a file notices, in bounded memory. Changes nothing and knows no file."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence

from cbatch.traces.blocks import Blocks
from cbatch.traces.findings import Finding, by_level
from cbatch.traces.formats.format import Entry, Format
from cbatch.traces.formats.values import show
from cbatch.traces.times import Times

_EXAMPLES = 5
"""Messages of bad lines to keep."""


class Inspection:
    """Sees every entry of a file once, in order; says at any time what was noticed so far."""

    def __init__(self, form: Format, columns: Sequence[str], unit: str | None) -> None:
        self._form = form
        self._unused = [column for column in columns if column not in form.used]
        self._times = Times(form, unit)
        self._blocks = Blocks(form)
        self._changes: Counter[str] = Counter()
        self._lengths: Counter[str] = Counter()
        self._bad: list[str] = []
        self.num_bad = 0
        self.num_entries = 0
        """Well-formed ones."""

    def see(self, where: str, entry: Entry) -> None:
        self.num_entries += 1
        self._changes.update(entry.changes)
        if (request := entry.request) is None:
            return
        if self._form.time is not None:
            self._times.see(request.arrival_ns, entry.time_form)
        self._blocks.see(where, request)
        if request.prompt_tokens == 0:
            self._lengths["zero_prompts"] += 1
        if request.output_tokens == 0:
            self._lengths["zero_outputs"] += 1
        elif request.output_tokens is None:
            self._lengths["natural_outputs"] += 1

    def see_bad(self, message: str) -> None:
        """A line that can't be read; `message` has its place."""
        self.num_bad += 1
        if len(self._bad) < _EXAMPLES:
            self._bad.append(message)

    @property
    def bad_examples(self) -> str:
        """The first messages of bad lines."""
        return "; ".join(self._bad)

    def findings(self) -> list[Finding]:
        """The most serious first."""
        found = [*self._general(), *self._times.findings(), *self._blocks.findings(), *self._about_lengths()]
        return by_level(found)

    def _general(self) -> Iterator[Finding]:
        yield Finding("info", "format", f"read as {self._form.about} ({self._form.container.name})")
        if self._unused:
            shown = ", ".join(show(column) for column in self._unused[:12])
            yield Finding("info", "unused_columns", f"not used: {shown}")
        if self.num_bad:
            message = f"{self.num_bad:,} lines can't be read and are left out: {self.bad_examples}"
            yield Finding("error", "bad_lines", message)
        for change, count in self._changes.items():
            yield Finding("warning", change, f"{count:,} {self._form.notes[change]}")

    def _about_lengths(self) -> Iterator[Finding]:
        for code, what in (("zero_prompts", "a prompt"), ("zero_outputs", "an output")):
            if count := self._lengths[code]:
                message = f"{count:,} requests have {what} of 0 tokens: raised to 1, the least there can be"
                yield Finding("warning", code, message)
        if count := self._lengths["natural_outputs"]:
            message = f"{count:,} requests have no output length: they go on until the model stops"
            yield Finding("info", "natural_outputs", message)
