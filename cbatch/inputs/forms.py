"""Which form a file has, by its name. Opens nothing."""

from __future__ import annotations

import os

FORMS = ("jsonl", "json", "csv", "tsv", "parquet", "arrow", "text")

EXTENSIONS = {
    ".jsonl": "jsonl",
    ".ndjson": "jsonl",
    ".json": "json",
    ".csv": "csv",
    ".tsv": "tsv",
    ".parquet": "parquet",
    ".arrow": "arrow",
    ".feather": "arrow",
    ".ipc": "arrow",
    ".txt": "text",
    ".md": "text",
}
COMPRESSIONS = {".gz": "gzip", ".zst": "zstd", ".bz2": "bz2", ".xz": "xz"}


def form_of(path: str) -> str | None:
    """By the extension, that of a compression aside; None where it says nothing."""
    root, extension = os.path.splitext(path)
    if extension.lower() in COMPRESSIONS:
        extension = os.path.splitext(root)[1]
    return EXTENSIONS.get(extension.lower())


def compression_of(path: str) -> str | None:
    """What the name promises."""
    return COMPRESSIONS.get(os.path.splitext(path)[1].lower())
