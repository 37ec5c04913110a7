"""`run.json`: what ran, on what, with which parameters, and its totals. Knows how to write it, not what is in it."""

from __future__ import annotations

import json
import os
import platform
from collections.abc import Mapping
from datetime import datetime, timezone
from importlib.metadata import version
from pathlib import Path
from typing import Any

import cbatch
from cbatch.outputs.directory import RUN_JSON
from cbatch.outputs.files import publish, temporary, writing

_PACKAGES = ("llama-cpp-python", "numpy", "pyarrow")


def write_run_json(directory: Path, record: Mapping[str, Any]) -> Path:
    """Write `record`, JSON values only, and return the file's path. An earlier one stays until this one is complete.

    Half a surrogate pair, as Python gives it for a byte of a file name that isn't UTF-8, becomes JSON's escape for it.
    Raises `WriteError` where the disk refuses.
    """
    path = directory / RUN_JSON
    text = json.dumps(record, indent=2, ensure_ascii=False, allow_nan=False)
    with writing(path):
        temporary(path).write_text(text + "\n", encoding="utf-8", errors="backslashreplace")
        publish(path)
    return path


def environment() -> dict[str, Any]:
    """Versions and machine, JSON-ready."""
    return {
        "versions": {
            "cbatch": cbatch.__version__,
            "python": platform.python_version(),
            **{package: version(package) for package in _PACKAGES},
        },
        "platform": {
            "system": platform.platform(),
            "machine": platform.machine(),
            "cpu_count": os.cpu_count(),
        },
    }


def utc_now() -> str:
    """The time of day in UTC, ISO 8601, to the millisecond: `2025-01-31T12:00:00.000+00:00`."""
    return datetime.now(timezone.utc).isoformat(timespec="milliseconds")
