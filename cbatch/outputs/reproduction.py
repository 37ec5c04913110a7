"""What a preset leaves on disk beside its comparisons: `preset.json`. Knows no statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cbatch.metrics.reproduction import Reproduction
from cbatch.outputs.directory import PRESET_JSON
from cbatch.outputs.files import publish, temporary, writing


def write_reproduction(directory: Path, found: Reproduction, notes: Sequence[str]) -> Path:
    """Write `preset.json` and return its path. Raises `WriteError`."""
    path = directory / PRESET_JSON
    record = {**found.to_dict(), "notes": list(notes)}
    with writing(path):
        temporary(path).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        publish(path)
    return path
