"""What a trace's Parquet file holds: its columns, and its manifest as JSON. Knows no file.

Any Parquet file with these columns is a trace; only `arrival_s` and one of `prompt` and `prompt_tokens` must be there.
"""

from __future__ import annotations

import json
from typing import Any

import pyarrow as pa

from cbatch.traces.trace import Manifest

_FIELDS: list[pa.Field[Any]] = [
    pa.field("arrival_s", pa.float64(), nullable=False),
    pa.field("prompt", pa.string()),
    pa.field("prompt_tokens", pa.int32()),
    pa.field("output_tokens", pa.int32()),
    pa.field("priority", pa.int32()),
    pa.field("session_id", pa.string()),
    pa.field("prefix_ids", pa.list_(pa.int64())),
    pa.field("prefix_block", pa.int32()),
    pa.field("tenant", pa.string()),
]
SCHEMA = pa.schema(_FIELDS)
"""Null where a request doesn't say. `arrival_s` gives the nanoseconds back as round(arrival_s * 1e9), exactly below
2**51 ns (26 days); beyond, float64 seconds are coarser than a nanosecond."""

MANIFEST_KEY = b"cbatch.trace"
"""Of the file's metadata."""
VERSION = 1
"""Of the manifest's JSON."""


def manifest_to_json(manifest: Manifest) -> bytes:
    """UTF-8; equal manifests give equal bytes."""
    fields = {
        "version": VERSION,
        "source": dict(manifest.source),
        "request_rate": manifest.request_rate,
        "transforms": list(manifest.transforms),
        "changes": dict(manifest.changes),
    }
    return json.dumps(fields, sort_keys=True, ensure_ascii=False, allow_nan=False).encode()


def manifest_from_json(text: bytes) -> Manifest:
    """Raises `ValueError`, with what is wrong, for anything that `manifest_to_json` doesn't write."""
    fields = json.loads(text)
    if not isinstance(fields, dict) or fields.get("version") != VERSION:
        raise ValueError(f"no JSON object with version {VERSION}")
    rate = fields.get("request_rate")
    if rate is not None and not isinstance(rate, (int, float)):
        raise ValueError(f"request_rate is {rate!r}, no number")
    return Manifest(
        source=_typed(fields, "source", dict),
        request_rate=rate,
        transforms=tuple(_typed(fields, "transforms", list)),
        changes=_typed(fields, "changes", dict),
    )


def _typed(fields: dict[str, Any], name: str, kind: type) -> Any:
    value = fields.get(name)
    if not isinstance(value, kind):
        raise ValueError(f"{name} is {value!r}, no JSON {'object' if kind is dict else 'array'}")
    return value
