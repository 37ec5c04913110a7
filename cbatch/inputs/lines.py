"""Cuts bytes into lines, many at a time. Knows nothing of what a line means."""

from __future__ import annotations

from collections.abc import Iterator

from cbatch.inputs.fault import Fault
from cbatch.inputs.streams import ByteStream

MAX_LINE = 1 << 26
"""Bytes that a line may have: of longer ones only one byte more is kept."""


def line_blocks(stream: ByteStream) -> Iterator[list[bytes]]:
    """The lines that each read completes, without `\\n`. What a read error cuts off is no line."""
    begun: list[bytes] = []
    size = 0
    while block := stream.read1():
        *lines, rest = block.split(b"\n")
        if lines:
            if size:
                lines[0] = b"".join((*begun, lines[0]))[: MAX_LINE + 1]
                begun, size = [], 0
            yield lines
        if rest and size <= MAX_LINE:
            begun.append(rest)
            size += len(rest)
    if size:
        yield [b"".join(begun)[: MAX_LINE + 1]]


def check_length(raw: bytes) -> None:
    """Raises `Fault` with `line_too_long`."""
    if len(raw) > MAX_LINE:
        raise Fault("line_too_long", f"the line has more than {MAX_LINE >> 20} MiB: shorten it")


def text_of(raw: bytes, unit: str = "line") -> str:
    """Its characters. Raises `Fault` with `line_too_long` or `invalid_utf8`."""
    check_length(raw)
    try:
        return raw.decode("utf-8")
    except UnicodeDecodeError as error:
        found = f"byte 0x{raw[error.start]:02x} at offset {error.start} of the {unit}"
        raise Fault("invalid_utf8", f"{found} isn't valid UTF-8: save the file as UTF-8") from None
