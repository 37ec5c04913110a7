"""What a comparison leaves on disk beside its replays: `compare.json`. Knows no statistics."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path

from cbatch.metrics.compare import Comparison
from cbatch.metrics.divergence import Audit, Repeatability
from cbatch.outputs.directory import COMPARE_JSON
from cbatch.outputs.files import publish, temporary, writing


def write_comparison(
    directory: Path,
    comparison: Comparison,
    audits: Sequence[Audit],
    repeatabilities: Sequence[Repeatability],
    notes: Sequence[str],
) -> Path:
    """Write `compare.json` and return its path. Raises `WriteError`."""
    path = directory / COMPARE_JSON
    record = {
        **comparison.to_dict(),
        "audit": [audit.to_dict() for audit in audits],
        "repeatability": [found.to_dict() for found in repeatabilities],
        "notes": list(notes),
    }
    with writing(path):
        temporary(path).write_text(json.dumps(record, indent=2, allow_nan=False) + "\n", encoding="utf-8")
        publish(path)
    return path
