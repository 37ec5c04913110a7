"""What a quick calibration found, and where it is kept, for jobs like the one that it was made for.

Beside a profile it says little: which kernels were fastest, for prompts and outputs of about such lengths and about so
many sequences at once.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from cbatch.tune.mix import Mix
from cbatch.tune.profile import VERSION, Key, cache_path, save_profile

_FOLDER = "calibrations"
_ALIKE = 2.0
"""Jobs are alike whose mean lengths and slots differ by no more than this factor."""


@dataclass(frozen=True, slots=True)
class Calibration:
    """The fastest kernels, and what they are fastest for."""

    created: str
    """ISO 8601, UTC."""
    settings: Mapping[str, str]
    """Of a run, by the option's name: those in which the fastest kernels differ from cbatch's own rules."""
    lengths: tuple[float, float, float]
    """Of the job, in the mean: tokens of a prompt, of an output, and what a sequence holds while it decodes."""
    slots: int
    """With which the job decodes, or as many as trials have."""
    ratio: float = 1.0
    """How many times as fast as cbatch's own rules."""
    seconds: float = 0.0
    """That it took."""

    @property
    def date(self) -> str:
        """`2026-11-30`."""
        return self.created[:10]

    def fits(self, mix: Mix, slots: int) -> bool:
        """Whether it was made for a job like this one."""
        pairs = zip((*self.lengths, self.slots), (*lengths_of(mix), slots), strict=True)
        return all(max(a, b) <= _ALIKE * min(a, b) for a, b in pairs)


def lengths_of(mix: Mix) -> tuple[float, float, float]:
    """As of `Calibration`."""
    return mix.prompt, mix.outputs, float(mix.context)


def calibration_path(key: Key, cache_dir: Path | None = None) -> Path:
    """`cache_dir`: None is the user's."""
    return cache_path(_FOLDER, key, cache_dir)


def save_calibration(path: Path, found: Calibration, key: Key) -> None:
    """Replace what is there. Raises `OutputError`."""
    told = {name: getattr(found, name) for name in ("lengths", "slots", "ratio", "seconds")}
    save_profile(path, {"created": found.created, "key": key, "settings": dict(found.settings), **told})


def load_calibration(path: Path) -> Calibration | None:
    """None where there is none, or one of another version: a cache may be lost at any time."""
    try:
        record: dict[str, Any] = json.loads(path.read_text("utf-8"))
        if record["version"] != VERSION:
            return None
        prompt, outputs, context = map(float, record["lengths"])
        settings = {
            name: str(record["settings"][name]) for name in ("kv_type", "flash_attn") if name in record["settings"]
        }
        return Calibration(
            created=str(record["created"]),
            settings=settings,
            lengths=(prompt, outputs, context),
            slots=int(record["slots"]),
            ratio=float(record["ratio"]),
            seconds=float(record["seconds"]),
        )
    except (OSError, ValueError, KeyError, TypeError):
        return None
