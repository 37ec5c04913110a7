"""A file in the making that is written from its beginning to its end. Knows no form."""

from __future__ import annotations

from pathlib import Path

from cbatch.outputs.files import remove, temporary, writing


class PlainFile:
    """Under its temporary name; a name is given by `publish`. Raises `WriteError`."""

    def __init__(self, path: Path) -> None:
        self.paths = (path,)
        self.rows = 0
        self._path = path
        with writing(path):
            self._file = temporary(path).open("wb")

    def finish(self) -> None:
        """Complete the file."""
        with writing(self._path):
            self._file.close()

    def discard(self) -> None:
        """Drop the file."""
        with writing(self._path):
            self._file.close()
            remove(temporary(self._path))
