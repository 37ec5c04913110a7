"""`run.json`: what ran, on what, with which parameters, and its totals. Knows no more of it than JSON."""

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
from cbatch.errors import OutputError
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


def read_run_json(directory: Path) -> dict[str, Any] | None:
    """The record in the directory, None where there is none. Raises `OutputError` where it can't be read."""
    path = directory / RUN_JSON
    try:
        record = json.loads(path.read_bytes())
    except FileNotFoundError:
        return None
    except OSError as error:
        raise OutputError(f"{path} can't be read: {error.strerror or error}") from error
    except (ValueError, RecursionError) as error:
        raise _damaged(path, str(error)) from error
    if not isinstance(record, dict):
        raise _damaged(path, f"it holds {type(record).__name__}, not an object")
    return record


def _damaged(path: Path, reason: str) -> OutputError:
    return OutputError(
        f"{path} is damaged: {reason}. Put back a good copy, or begin anew: give another directory, or --force"
    )


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
