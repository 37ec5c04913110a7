"""What is odd about a trace file, without importing it."""

from __future__ import annotations

from pathlib import Path

from cbatch.errors import InputError
from cbatch.traces.findings import Finding, by_level
from cbatch.traces.formats.containers import name_of
from cbatch.traces.formats.format import BadRow, Format
from cbatch.traces.source import open_source


def lint(
    path: Path | str, as_format: Format | None = None, *, time_unit: str | None = None, block_size: int | None = None
) -> list[Finding]:
    """Everything noticed in one pass over the file, the most serious first; each says what an import does about it.

    Options as for `import_trace`. Raises `InputError` for a file of no known format, `UsageError` for options that
    don't fit it; a file that breaks off later is a finding.
    """
    source = open_source(Path(path), as_format, time_unit=time_unit, block_size=block_size)
    inspection, broken = source.inspection(), []
    try:
        for where, entry in source.entries():
            if isinstance(entry, BadRow):
                inspection.see_bad(f"{where}: {entry}")
            else:
                inspection.see(where, entry)
    except InputError as error:
        broken.append(Finding("error", "unreadable", str(error)))
    if not broken and not inspection.num_entries and not inspection.num_bad:
        broken.append(Finding("error", "no_requests", f"{name_of(source.path)} holds no request"))
    return by_level([*broken, *inspection.findings()])
