"""The report that `cbatch compare` writes beside its replays. Knows directories, and draws nothing itself."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from cbatch.errors import CbatchError

PAGE = "report.html"


def write_page(comparisons: Sequence[Path], directory: Path) -> tuple[Path | None, list[str]]:
    """Where the report of `comparisons` is, in `directory`; what keeps it from being made is a note and no error."""
    from cbatch.pages import write_report  # matplotlib takes a second to load

    try:
        return write_report(comparisons, directory / PAGE)[0], []
    except CbatchError as error:
        return None, [f"there is no report: {error}"]
