"""Which files there are to read, and their lines as bytes. Knows nothing of what a line means."""

from __future__ import annotations

import codecs
import glob
import os
import stat
import sys
from collections.abc import Iterable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import BinaryIO, NamedTuple

from cbatch.errors import InputError

STDIN = "-"
_CHUNK = 1 << 16
"""Bytes to read at once: what a pipe holds on Linux."""


class Line(NamedTuple):
    """One line that isn't blank."""

    where: str
    """`file:line`, 1-based, blank lines counted."""
    raw: bytes
    """Without its line end."""


def find_sources(sources: Sequence[str]) -> list[str]:
    """The readable paths that paths, globs and `-` (stdin) stand for; matches of a glob are sorted.

    A path that exists is taken as it is, whatever characters it has. Raises `InputError`.
    """
    if not sources:
        raise InputError("no input is given: give JSONL files, globs, or - for stdin")
    if sources.count(STDIN) > 1:
        raise InputError("- is given more than once: stdin can be read only once")
    found = [path for source in sources for path in _expand(source)]
    for path in found:
        _check_readable(path)
    return found


def _expand(source: str) -> list[str]:
    if source == STDIN or os.path.lexists(source) or not glob.has_magic(source):
        return [source]
    files = sorted(path for path in glob.glob(source, recursive=True) if not os.path.isdir(path))
    if not files:
        raise InputError(f"{_name(source)} matches no file: check the pattern")
    return files


def _check_readable(path: str) -> None:
    """Doesn't open it: to open and close a pipe would break it."""
    if path == STDIN:
        return
    try:
        mode = os.stat(path).st_mode
    except OSError as error:
        raise InputError(f"{_name(path)} can't be read: {error.strerror}") from error
    if stat.S_ISDIR(mode):
        raise InputError(f"{_name(path)} is a directory: give its files, for example {_name(path).rstrip('/')}/*.jsonl")
    if not os.access(path, os.R_OK):
        raise InputError(f"{_name(path)} can't be read: you don't have permission")


def read_lines(path: str, stdin: BinaryIO | None) -> Iterator[Line]:
    """The lines of one source that aren't blank, without a byte order mark. Raises `InputError` where reading fails."""
    name, number = _name(path), 0
    try:
        with _open(path, stdin) as stream:
            for number, raw in enumerate(stream, 1):
                text = raw.removeprefix(codecs.BOM_UTF8) if number == 1 else raw
                if text.strip():
                    yield Line(f"{name}:{number}", text.rstrip(b"\r\n"))
    except OSError as error:
        reached = f"{name} can't be read past line {number}" if number else f"{name} can't be read"
        raise InputError(f"{reached}: {error.strerror or error}") from error


def _open(path: str, stdin: BinaryIO | None) -> AbstractContextManager[Iterable[bytes]]:
    if path != STDIN:
        return open(path, "rb")
    if stdin is not None:
        return nullcontext(stdin)
    if sys.stdin is None:
        raise InputError("stdin is closed: give a file instead of -")
    return nullcontext(_lines(sys.stdin.fileno()))


def _lines(descriptor: int) -> Iterator[bytes]:
    """Its lines without their ends, each as soon as it is there.

    Reads past `sys.stdin`: at exit the interpreter closes that, and dies where a thread still waits in a read of it.
    """
    begun: list[bytes] = []
    while chunk := os.read(descriptor, _CHUNK):
        *ends, rest = chunk.split(b"\n")
        for end in ends:
            yield b"".join((*begun, end))
            begun.clear()
        begun.append(rest)
    if any(begun):
        yield b"".join(begun)


def _name(path: str) -> str:
    """The path as printable UTF-8, since file names can be any bytes."""
    return "stdin" if path == STDIN else os.fsencode(path).decode("utf-8", "backslashreplace")
