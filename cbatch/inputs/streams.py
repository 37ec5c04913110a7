"""The bytes of a source, uncompressed and without a byte order mark, as they come. Knows no lines."""

from __future__ import annotations

import bz2
import codecs
import gzip
import lzma
import os
import sys
import zlib
from collections.abc import Callable
from typing import Any, BinaryIO, Protocol

import pyarrow as pa

from cbatch.errors import InputError
from cbatch.inputs.forms import compression_of
from cbatch.inputs.sources import STDIN, Source

BLOCK = 1 << 18
"""Bytes to read at once; a pipe gives fewer."""

READ_ERRORS = (OSError, EOFError, MemoryError, UnicodeDecodeError, zlib.error, lzma.LZMAError, pa.ArrowException)
"""What reading may raise beside `InputError`; a damaged length asks for more memory than there is."""

_MAGIC = {
    "gzip": b"\x1f\x8b\x08",
    "zstd": b"\x28\xb5\x2f\xfd",
    "bz2": b"BZh",
    "xz": b"\xfd7zXZ\x00",
}
_BZ2_BLOCKS = (b"1AY&SY", b"\x17rE8P\x90")
"""One follows `BZh` and a digit; else it is text that begins so."""


class Readable(Protocol):
    """What `ByteStream` needs of a file."""

    def read1(self, size: int = -1, /) -> bytes:
        """Some bytes as soon as there are any; none at the end."""
        ...

    def close(self) -> None: ...


class ByteStream:
    """A file read once from start to end, with a look at what comes next."""

    def __init__(self, file: Readable, *below: ByteStream) -> None:
        """`below` is closed with it."""
        self._file = file
        self._below = below
        self._ahead = b""
        self.closed = False

    def peek(self, size: int) -> bytes:
        """The next `size` bytes or more, waited for; fewer at the end. They stay to be read."""
        while len(self._ahead) < size and (more := self._file.read1(BLOCK)):
            self._ahead += more
        return self._ahead

    def read1(self, size: int = BLOCK) -> bytes:
        """Up to `size` bytes as soon as there are any; none at the end."""
        if not self._ahead:
            return self._file.read1(size)
        given, self._ahead = self._ahead[:size], self._ahead[size:]
        return given

    def read(self, size: int = -1) -> bytes:
        """`size` bytes, or all; fewer only at the end."""
        parts, left = [], size
        while left and (part := self.read1(left if left > 0 else BLOCK)):
            parts.append(part)
            left -= len(part) if left > 0 else 0
        return b"".join(parts)

    def close(self) -> None:
        for file in (self._file, *self._below):
            file.close()
        self.closed = True


class _File:
    """A file as it was found: what was appended since isn't read."""

    def __init__(self, source: Source) -> None:
        self._file = open(source.path, "rb")  # noqa: SIM115  (closed by `close`)
        self._left = None if source.state is None else source.state.size

    def read1(self, size: int = -1, /) -> bytes:
        if self._left is None:
            return self._file.read1(size)
        part = self._file.read1(min(size, self._left) if size >= 0 else self._left)
        self._left -= len(part)
        return part

    def close(self) -> None:
        self._file.close()


class _Borrowed:
    """A stream that whoever gave it will close."""

    def __init__(self, file: Any) -> None:
        self._file = file

    def read1(self, size: int = -1, /) -> bytes:
        part: bytes = self._file.read1(size)
        return part

    def close(self) -> None: ...


class _Stdin:
    """Reads past `sys.stdin`: at exit the interpreter closes that, and dies where a thread still waits in it."""

    def __init__(self) -> None:
        if sys.stdin is None:
            raise InputError("stdin is closed: give a file instead of -")
        self._descriptor = sys.stdin.fileno()

    def read1(self, size: int = -1, /) -> bytes:
        return os.read(self._descriptor, size if size > 0 else BLOCK)

    def close(self) -> None:
        """It isn't ours."""


def open_stdin() -> ByteStream:
    """Standard input, to be handed to `read_rows` when one has looked at its head. Raises `InputError`."""
    return ByteStream(_Stdin())


def open_bytes(source: Source, stdin: BinaryIO | ByteStream | None) -> ByteStream:
    """The source as it is. Raises `InputError`, `OSError`."""
    if source.path != STDIN:
        return ByteStream(_File(source))
    if stdin is None:
        return open_stdin()
    return stdin if isinstance(stdin, ByteStream) else ByteStream(_Borrowed(stdin))


def open_text(source: Source, stdin: BinaryIO | ByteStream | None) -> ByteStream:
    """Uncompressed, without a byte order mark. Raises `InputError`, and whatever of `READ_ERRORS`."""
    stream = open_bytes(source, stdin)
    try:
        return _unpacked(source, stream)
    except BaseException:
        stream.close()
        raise


def _unpacked(source: Source, stream: ByteStream) -> ByteStream:
    found = _compression(stream)
    promised = compression_of(source.path)
    if promised is not None and found != promised and stream.peek(1):
        raise InputError(f"{source.name} isn't a {promised} file, or a damaged one: check it, or rename it")
    text = stream if found is None else ByteStream(_UNPACK[found](stream), stream)
    if _begins_with(text, codecs.BOM_UTF8):
        text.read(len(codecs.BOM_UTF8))
    return text


def arrow_file(stream: ByteStream) -> Any:
    """The stream as Arrow wants it."""
    file: Any = stream
    return pa.PythonFile(file, mode="r")


def _compression(stream: ByteStream) -> str | None:
    found = next((name for name, magic in _MAGIC.items() if _begins_with(stream, magic)), None)
    if found == "bz2" and stream.peek(10)[4:10] not in _BZ2_BLOCKS:
        return None
    return found


def _begins_with(stream: ByteStream, magic: bytes) -> bool:
    """Waits for no more bytes than it takes to tell."""
    return all(stream.peek(size)[:size] == magic[:size] for size in range(1, len(magic) + 1))


class _Zstd:
    def __init__(self, stream: ByteStream) -> None:
        self._file = pa.CompressedInputStream(arrow_file(stream), "zstd")

    def read1(self, size: int = -1, /) -> bytes:
        data: bytes = self._file.read(size)
        return data

    def close(self) -> None:
        self._file.close()


_UNPACK: dict[str, Callable[[Any], Any]] = {
    "gzip": lambda stream: gzip.GzipFile(fileobj=stream, mode="rb"),
    "zstd": _Zstd,
    "bz2": bz2.BZ2File,
    "xz": lzma.LZMAFile,
}
