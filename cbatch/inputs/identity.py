"""What the inputs of a job are, to tell later whether they still are that. Reads little of large files."""

from __future__ import annotations

import hashlib
from collections.abc import Sequence
from typing import Any, BinaryIO

from cbatch.errors import InputError
from cbatch.inputs.options import AUTO
from cbatch.inputs.sources import STDIN, Source, find_sources

WHOLE = 1 << 26
"""Bytes up to which all of a file counts."""
_END = 1 << 20
_BLOCK = 4096
_BLOCKS = 256


def identity(sources: Sequence[str], stdin_head: bytes | None = None, *, form: str = AUTO) -> list[dict[str, Any]]:
    """For each file that `sources` stand for, in order: `name`, `size` and `fingerprint`.

    Of stdin: `head_bytes` in place of the size, where its first bytes are given. What can be read only once has
    `kind` `pipe` in place of both. `form` is `InputOptions.format`. Raises `InputError`.

    A change of a few bytes within a file of more than 64 MiB may escape it, if its size stays the same.
    """
    return [_describe(source, stdin_head) for source in find_sources(sources, None if form == AUTO else form)]


def _describe(source: Source, stdin_head: bytes | None) -> dict[str, Any]:
    if source.path == STDIN and stdin_head is not None:
        digest = hashlib.sha256(stdin_head).hexdigest()
        return {"name": source.name, "head_bytes": len(stdin_head), "fingerprint": f"sha256:{digest}"}
    if source.state is None:
        return {"name": source.name, "kind": "pipe"}
    try:
        with open(source.path, "rb") as file:
            digest = _fingerprint(file, source.state.size)
    except OSError as error:
        raise InputError(f"{source.name} can't be read: {error.strerror}") from error
    return {"name": source.name, "size": source.state.size, "fingerprint": f"sha256:{digest}"}


def _fingerprint(file: BinaryIO, size: int) -> str:
    """Over all; of a large file over its size, first MiB, 256 blocks of 4 KiB at even distances, and last MiB."""
    digest = hashlib.sha256()
    if size <= WHOLE:
        while part := file.read(_END):
            digest.update(part)
        return digest.hexdigest()
    digest.update(size.to_bytes(8, "little"))
    places = [(0, _END), *((size * i // _BLOCKS, _BLOCK) for i in range(_BLOCKS)), (size - _END, _END)]
    for at, length in places:
        file.seek(at)
        digest.update(file.read(length))
    return digest.hexdigest()
