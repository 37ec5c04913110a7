from __future__ import annotations

import bz2
import gzip
import io
import lzma
import os
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from cbatch.clock import VirtualClock
from cbatch.errors import InputError
from cbatch.inputs import open_stdin, read_rows
from cbatch.inputs.streams import ByteStream
from cbatch.sampling import SamplingParams
from tests.inputs.reading import broken_off, good, open_rows, read, read_files


def zstd(data: bytes) -> bytes:
    sink = pa.BufferOutputStream()
    with pa.CompressedOutputStream(sink, "zstd") as file:
        file.write(data)
    packed: bytes = sink.getvalue().to_pybytes()
    return packed


PACK = {".gz": gzip.compress, ".zst": zstd, ".bz2": bz2.compress, ".xz": lzma.compress}
LINES = b"".join(b'"prompt %d"\n' % n for n in range(20_000))


@pytest.mark.parametrize("extension", PACK)
def test_compressed_text_is_unpacked_by_its_first_bytes(tmp_path: Path, extension: str) -> None:
    packed = PACK[extension](b'\xef\xbb\xbf"a"\n"b"\n')
    for name in (f"a.jsonl{extension}", "a.jsonl"):
        (tmp_path / name).write_bytes(packed)
        assert [row.content for row in good(read_files(tmp_path / name))] == ["a", "b"]
    assert [row.content for row in good(read(packed))] == ["a", "b"]


@pytest.mark.parametrize("extension", PACK)
def test_files_that_were_packed_in_parts_are_read_to_the_end(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.jsonl{extension}"
    path.write_bytes(PACK[extension](b'"a"\n"b') + PACK[extension](b'c"\n'))
    assert [row.content for row in good(read_files(path))] == ["a", "bc"]


@pytest.mark.parametrize("extension", PACK)
def test_rows_before_a_cut_stay_good(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.jsonl{extension}"
    packed = PACK[extension](LINES)
    path.write_bytes(packed[: len(packed) * 9 // 10])
    items, message = broken_off(open_rows(path))
    contents = [row.content for row in good(items)]
    assert contents == [f"prompt {n}" for n in range(len(contents))]
    if extension in (".gz", ".xz"):  # the others pack and unpack all of this at once
        assert contents
        assert f"a.jsonl{extension} can't be read past line {len(contents)}: " in message
    else:
        assert f"a.jsonl{extension} can't be read" in message


@pytest.mark.parametrize("extension", PACK)
def test_a_name_that_promises_what_isnt_there_is_refused(tmp_path: Path, extension: str) -> None:
    path = tmp_path / f"a.jsonl{extension}"
    path.write_bytes(b'"a"\n')
    assert "isn't a" in broken_off(open_rows(path))[1]
    path.write_bytes(b"")
    assert read_files(path) == []


def test_text_that_begins_like_a_compression_is_text(tmp_path: Path) -> None:
    (tmp_path / "a.txt").write_text("BZh9 is how it begins\n(\n")
    assert [row.content for row in good(read_files(tmp_path / "a.txt"))] == ["BZh9 is how it begins", "("]


def test_a_byte_order_mark_is_dropped_at_the_start_of_each_file_only(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b'\xef\xbb\xbf"a"\n\xef\xbb\xbf"b"\n')
    first, second = read_files(path)
    assert (first.ref.where, getattr(second, "code", None)) == (f"{path}:1", "invalid_json")


def test_a_stream_can_be_looked_into() -> None:
    stream = ByteStream(io.BytesIO(b"abcdef"))  # type: ignore[arg-type, unused-ignore]
    assert stream.peek(3).startswith(b"abc")
    assert (stream.read1(2), stream.read(3), stream.read(), stream.read1()) == (b"ab", b"cde", b"f", b"")
    assert stream.peek(1) == b""


class FailingDisk(io.RawIOBase):
    """Two lines, then an error."""

    def __init__(self) -> None:
        self._lines = iter([b'"a"\n', b'"b"\n'])

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        line = next(self._lines, None)
        if line is None:
            raise OSError(5, "Input/output error")
        buffer[: len(line)] = line
        return len(line)


def test_a_read_error_names_the_line_reached() -> None:
    stdin = io.BufferedReader(FailingDisk())
    rows = read_rows(["-"], defaults=SamplingParams(), clock=VirtualClock(), stdin=stdin)
    assert [next(rows).ref.where, next(rows).ref.where] == ["stdin:1", "stdin:2"]
    with pytest.raises(InputError, match="stdin can't be read past line 2: Input/output error"):
        next(rows)


def test_lines_of_stdin_are_handed_on_as_they_arrive() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, open(writing, "wb", buffering=0) as writer:
        rows = read_rows(["-"], defaults=SamplingParams(), clock=VirtualClock(), stdin=stdin)
        for prompt in (b'"a"\n', b'"b"\n'):
            writer.write(prompt)
            next(rows)


_MAIN_ENDS_FIRST = """
import sys, threading
from cbatch.clock import WallClock
from cbatch.inputs import read_rows
from cbatch.sampling import SamplingParams

rows, first = read_rows(["-"], defaults=SamplingParams(), clock=WallClock()), threading.Event()
threading.Thread(target=lambda: [first.set() for _ in rows], daemon=True).start()
sys.exit(0 if first.wait(20) else 1)
"""


def test_a_thread_that_waits_for_stdin_doesnt_break_the_exit() -> None:
    child = subprocess.Popen([sys.executable, "-c", _MAIN_ENDS_FIRST], stdin=subprocess.PIPE, stderr=subprocess.PIPE)
    with child:
        assert child.stdin is not None
        assert child.stderr is not None
        child.stdin.write(b'"a"\n')
        child.stdin.flush()  # and it stays open
        assert child.wait(timeout=30) == 0
        assert child.stderr.read() == b""


def test_stdin_can_be_looked_into_before_it_is_read(monkeypatch: pytest.MonkeyPatch) -> None:
    with tempfile.TemporaryFile() as file:
        file.write(b'"a"\n"b"\n')
        file.seek(0)
        monkeypatch.setattr(sys, "stdin", file)
        stdin = open_stdin()
        assert stdin.peek(4)[:4] == b'"a"\n'
        rows = read_rows(["-"], defaults=SamplingParams(), clock=VirtualClock(), stdin=stdin)
        assert [row.content for row in good(list(rows))] == ["a", "b"]


def test_a_closed_stdin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    assert "stdin is closed" in broken_off(open_rows("-"))[1]
