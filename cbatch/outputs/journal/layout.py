"""Where the journal and what becomes of it stand in an output directory. Knows names, and no contents."""

from __future__ import annotations

import re
from dataclasses import dataclass
from pathlib import Path

from cbatch.outputs.directory import JOURNAL, RESULTS_CSV, RESULTS_FOLDER, RESULTS_JSONL, part_path

_NUMBERED = re.compile(r"(?:.*-)?(\d{5})\.(?:parquet|wal)")


@dataclass(frozen=True, slots=True)
class Layout:
    """Names in an output directory. A segment and the pieces that it becomes, one for each table, share a number."""

    directory: Path
    output_format: str
    target: Path | None = None
    """The one file that complete results go to; None for the directory's own."""

    @property
    def journal(self) -> Path:
        return self.directory / JOURNAL

    @property
    def results_folder(self) -> Path:
        return self.directory / RESULTS_FOLDER

    @property
    def swap_note(self) -> Path:
        return self.journal / "swap.json"

    @property
    def renders_lines(self) -> bool:
        """Whether results are lines of JSON, whose pieces are in the journal: nobody reads those."""
        return self.output_format == "jsonl"

    @property
    def unfinished_file(self) -> Path | None:
        """The file that holds the results of an incomplete run; None where its pieces do."""
        return self.directory / RESULTS_JSONL if self.renders_lines else None

    @property
    def final_file(self) -> Path | None:
        """The file that holds the results of a complete run; None where numbered parts do."""
        if self.target is not None:
            return self.target
        return {"jsonl": self.directory / RESULTS_JSONL, "csv": self.directory / RESULTS_CSV}.get(self.output_format)

    def table(self, name: str) -> Path:
        """Of `requests` or `steps`."""
        return self.directory / f"{name}.parquet"

    def segment(self, number: int) -> Path:
        return self.journal / f"{number:05d}.wal"

    def piece(self, table: str, number: int) -> Path:
        if table == "results" and not self.renders_lines:
            return part_path(self.directory, number)
        return self.journal / f"{table}-{number:05d}.parquet"

    def segments(self) -> list[int]:
        """Those that aren't pieces yet, ascending."""
        return sorted(map(number_of, self.journal.glob("[0-9][0-9][0-9][0-9][0-9].wal")))

    def pieces(self, table: str) -> list[Path]:
        """Ascending by number."""
        pattern = self.piece(table, 0).name.replace("00000", "[0-9]" * 5)
        return sorted(self.piece(table, 0).parent.glob(pattern))


def number_of(path: Path) -> int:
    """Of a segment or piece."""
    found = _NUMBERED.fullmatch(path.name)
    assert found is not None
    return int(found[1])
