"""Frames: what is written to a journal at once, which is read back whole or not at all. Knows no files.

    frame = magic, kind, length of the payload, CRC-32 of kind and payload | payload
    payload = length, zstd of (table, length, Arrow IPC message) for each table that has something

A frame holds the schemas of all tables, as the first one of a segment does, or a batch of rows of some.
"""

from __future__ import annotations

import struct
import zlib
from collections.abc import Iterator, Mapping
from typing import Any, NamedTuple

import pyarrow as pa

TABLES = ("results", "requests", "steps")
SCHEMAS, BATCHES = 0, 1
HEAD = struct.Struct("<4sBQI")

_MAGIC = b"cbj1"
_ITEM = struct.Struct("<BQ")
_LENGTH = struct.Struct("<Q")
_MOST_COMPRESSION = 16
"""Bits: zstd makes 128 KiB of equal bytes a block of 4."""
_CODEC = pa.Codec("zstd", compression_level=1)

Batches = Mapping[str, pa.RecordBatch]
"""Rows by table; a table without rows may be left out."""


class Head(NamedTuple):
    """The beginning of a frame."""

    kind: int
    length: int
    """Bytes of the payload."""
    checksum: int


def schemas_frame(schemas: Mapping[str, pa.Schema]) -> bytes:
    """The frame that a segment begins with."""
    return _frame(SCHEMAS, {table: schema.serialize() for table, schema in schemas.items()})


def batches_frame(batches: Batches) -> bytes:
    """A frame of rows."""
    return _frame(BATCHES, {table: batch.serialize() for table, batch in batches.items() if batch.num_rows})


def parse_head(data: bytes) -> Head | None:
    """None where no frame begins so."""
    if len(data) < HEAD.size:
        return None
    magic, *fields = HEAD.unpack(data)
    return Head(*fields) if magic == _MAGIC else None


def parse_schemas(payload: bytes) -> dict[str, pa.Schema]:
    """Raises `ValueError` for a payload that no frame of schemas has."""
    return {table: pa.ipc.read_schema(message) for table, message in _messages(payload)}


def parse_batches(payload: bytes, schemas: Mapping[str, pa.Schema]) -> dict[str, pa.RecordBatch]:
    """Raises `ValueError` for a payload that no frame of rows of these tables has."""
    found = {}
    for table, message in _messages(payload):
        if table not in schemas:
            raise ValueError(f"rows of {table}, whose schema isn't known")
        batch = pa.ipc.read_record_batch(message, schemas[table])
        batch.validate(full=True)
        found[table] = batch
    return found


def checksum(kind: int, payload: bytes) -> int:
    """What the head says of its payload."""
    return zlib.crc32(payload, zlib.crc32(bytes([kind])))


def _frame(kind: int, messages: Mapping[str, pa.Buffer]) -> bytes:
    pieces: list[Any] = []
    for table, message in messages.items():
        pieces += [_ITEM.pack(TABLES.index(table), message.size), message]
    content = b"".join(pieces)
    payload: bytes = _LENGTH.pack(len(content)) + _CODEC.compress(content, asbytes=True)
    return HEAD.pack(_MAGIC, kind, len(payload), checksum(kind, payload)) + payload


def _messages(payload: bytes) -> Iterator[tuple[str, pa.Buffer]]:
    if len(payload) < _LENGTH.size:
        raise ValueError("no length")
    [size] = _LENGTH.unpack_from(payload)
    if size > len(payload) << _MOST_COMPRESSION:
        raise ValueError("a length that no content has")
    content = _CODEC.decompress(payload[_LENGTH.size :], decompressed_size=size)
    rest = 0
    while rest < size:
        if rest + _ITEM.size > size:
            raise ValueError("half a message")
        number, length = _ITEM.unpack_from(content, rest)
        rest += _ITEM.size
        if number >= len(TABLES) or rest + length > size:
            raise ValueError("a message that no table has")
        yield TABLES[number], content.slice(rest, length)
        rest += length
