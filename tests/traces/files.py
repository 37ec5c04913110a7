"""Trace files to read: the public ones, where they are there, and ones made of a few lines."""

from __future__ import annotations

import json
import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.traces.findings import Finding
from cbatch.traces.importing import Imported, import_trace
from cbatch.traces.lint import lint
from cbatch.traces.trace import TraceRequest

_SIBLING = Path(__file__).parents[2].parent / "shared" / "public-traces"

AZURE = "TIMESTAMP,ContextTokens,GeneratedTokens"
BURSTGPT = "Timestamp,Model,Request tokens,Response tokens,Total tokens,Log Type"
VIDUR = "arrived_at,num_prefill_tokens,num_decode_tokens"


def public_trace(name: str) -> Path:
    """A file of the public traces; the test is skipped where it isn't there."""
    path = Path(os.environ.get("CBATCH_PUBLIC_TRACES", _SIBLING)) / name
    if not path.exists():
        pytest.skip(f"{name} isn't there: point CBATCH_PUBLIC_TRACES at the public traces")
    return path


def write_lines(folder: Path, *lines: str, name: str = "trace") -> Path:
    path = folder / name
    path.write_text("".join(f"{line}\n" for line in lines), encoding="utf-8")
    return path


def write_records(folder: Path, *records: Any) -> Path:
    """JSONL."""
    return write_lines(folder, *(json.dumps(record) for record in records))


def write_parquet(folder: Path, columns: Mapping[str, Any]) -> Path:
    path = folder / "trace"
    pq.write_table(pa.table(dict(columns)), path)
    return path


def mooncake(timestamp: Any, input_length: Any = 10, output_length: Any = 5, **others: Any) -> dict[str, Any]:
    return {"timestamp": timestamp, "input_length": input_length, "output_length": output_length, **others}


def read(path: Path, **options: Any) -> tuple[list[TraceRequest], Imported]:
    """All of its requests, and what is known after them."""
    imported = import_trace(path, **options)
    return list(imported.requests), imported


def messages(findings: Iterable[Finding]) -> dict[str, str]:
    """By code; no code comes twice."""
    found = list(findings)
    by_code = {finding.code: finding.message for finding in found}
    assert len(by_code) == len(found)
    return by_code


def lint_messages(path: Path, **options: Any) -> dict[str, str]:
    return messages(lint(path, **options))
