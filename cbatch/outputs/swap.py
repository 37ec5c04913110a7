"""New files of results in the place of old ones, as if at once: cut off anywhere, it is finished later.

When all new files are complete under their temporary names, a note of what is to be done is published; from then on
the new ones count. Knows no formats.
"""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Sequence
from pathlib import Path

from cbatch.outputs.files import make_folder, publish, remove, sync, temporary, writing
from cbatch.outputs.journal.layout import Layout


def swap(layout: Layout, new: Sequence[Path], old: Iterable[Path]) -> None:
    """Publish the `new` files, and remove the `old` ones that aren't among them. Raises `WriteError`."""
    note = {
        "new": [_relative(layout, path) for path in new],
        "old": [_relative(layout, path) for path in old if path not in new],
    }
    with writing(layout.swap_note):
        for path in new:
            sync(temporary(path))
        make_folder(layout.journal)
        temporary(layout.swap_note).write_text(json.dumps(note), "utf-8")
        publish(layout.swap_note)
    finish_swap(layout)


def finish_swap(layout: Layout) -> None:
    """Do what the note says, where there is one. Raises `WriteError`."""
    with writing(layout.swap_note):
        if not layout.swap_note.exists():
            return
        note = json.loads(layout.swap_note.read_text("utf-8"))
        new = [layout.directory / name for name in note["new"]]
        for path in new:
            if temporary(path).exists():
                os.replace(temporary(path), path)
        for folder in {path.parent for path in new}:
            sync(folder)
        if all(path.exists() for path in new):
            for name in note["old"]:
                remove(layout.directory / name)
        remove(layout.swap_note)


def _relative(layout: Layout, path: Path) -> str:
    """So that the directory may be moved."""
    return os.path.relpath(path, layout.directory)
