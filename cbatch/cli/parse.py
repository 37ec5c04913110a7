"""Option values that are more than a word or a number. Errors name the option and show a right value."""

from __future__ import annotations

import json
import math
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from cbatch.config import MAX_CPUS
from cbatch.errors import UsageError


def parse_loras(values: Sequence[str]) -> tuple[tuple[Path, float], ...]:
    """`PATH` or `PATH:SCALE` each."""
    return tuple(_lora(value) for value in values)


def _lora(value: str) -> tuple[Path, float]:
    path, colon, scale = value.rpartition(":")
    if not colon or os.path.exists(value):
        return Path(value), 1.0
    try:
        return Path(path), float(scale)
    except ValueError:
        raise UsageError(f"--lora {value}: {scale!r} is no scale; give PATH or PATH:SCALE such as a.gguf:0.5") from None


def parse_tensor_split(value: str | None) -> tuple[float, ...]:
    """`3,1` as (3.0, 1.0)."""
    if value is None:
        return ()
    try:
        shares = tuple(float(part) for part in value.split(","))
    except ValueError:
        shares = ()
    if not all(math.isfinite(share) and share >= 0 for share in shares) or sum(shares) <= 0:
        raise UsageError(f"--tensor-split {value}: give a share for each GPU, such as 3,1")
    return shares


def parse_logit_bias(values: Sequence[str]) -> tuple[tuple[int, float], ...]:
    """`TOKEN_ID:BIAS` each."""
    pairs = []
    for value in values:
        token, _, bias = value.partition(":")
        try:
            pairs.append((int(token), float(bias)))
        except ValueError:
            raise UsageError(f"--logit-bias {value}: give TOKEN_ID:BIAS such as 42:-5") from None
    return tuple(pairs)


def parse_template_kwargs(value: str | None) -> dict[str, Any]:
    """A JSON object."""
    if value is None:
        return {}
    try:
        parsed = json.loads(value)
    except ValueError as error:
        raise UsageError(
            f"--template-kwargs isn't JSON ({error}): give an object such as '{{\"key\": true}}'"
        ) from None
    if not isinstance(parsed, dict):
        raise UsageError(f"--template-kwargs is {value}: give a JSON object such as '{{\"key\": true}}'")
    return parsed


MOST_CACHE_BYTES = 2 << 30
"""Of `--prefix-cache auto`."""
_UNITS = {"": 1, "B": 1, "KB": 10**3, "MB": 10**6, "GB": 10**9, "KIB": 2**10, "MIB": 2**20, "GIB": 2**30}
_SIZE = re.compile(r"\s*(\d+(?:\.\d+)?)\s*([A-Za-z]*)\s*")


def parse_cache_size(text: str) -> int:
    """`2GiB`, `500MB` or bytes, as bytes; `auto` as the most that it may come to."""
    if text == "auto":
        return MOST_CACHE_BYTES
    match = _SIZE.fullmatch(text)
    unit = None if match is None else _UNITS.get(match[2].upper())
    if match is None or unit is None:
        raise UsageError(f"--prefix-cache is {text!r}: give a size such as 2GiB or 500MB, or auto, or 0 for none")
    return int(float(match[1]) * unit)


def parse_cpu_list(text: str) -> tuple[int, ...] | None:
    """`0-3,8` as (0, 1, 2, 3, 8), `none` as (), `auto` as None."""
    if text in ("auto", "none"):
        return None if text == "auto" else ()
    cpus: set[int] = set()
    for part in text.split(","):
        low, dash, high = part.strip().partition("-")
        if not low.isdecimal() or (dash and not high.isdecimal()):
            raise UsageError(f"--cpu-mask {text}: give CPU numbers and ranges such as 0-3,8, or auto or none")
        first, last = int(low), int(high or low)
        if first > last or last >= MAX_CPUS:
            raise UsageError(f"--cpu-mask {text}: {part.strip()} is no range of CPUs below {MAX_CPUS}")
        cpus.update(range(first, last + 1))
    return tuple(sorted(cpus))
