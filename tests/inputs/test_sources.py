from __future__ import annotations

import io
import os
import subprocess
import sys
import tempfile
import threading
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.errors import InputError
from cbatch.inputs import read_rows, sources
from cbatch.inputs.sources import find_sources, read_lines
from cbatch.sampling import SamplingParams


def write(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).write_text('"Hi"\n')
    return [str(folder / name) for name in names]


def test_a_glob_stands_for_its_sorted_files_where_it_is_given(tmp_path: Path) -> None:
    b, a, other = write(tmp_path, "b.jsonl", "a.jsonl", "other.txt")
    (tmp_path / "folder.jsonl").mkdir()
    assert find_sources([other, f"{tmp_path}/*.jsonl"]) == [other, a, b]


def test_two_stars_search_subfolders(tmp_path: Path) -> None:
    (tmp_path / "x" / "y").mkdir(parents=True)
    (deep,) = write(tmp_path / "x" / "y", "a.jsonl")
    assert find_sources([f"{tmp_path}/**/*.jsonl"]) == [deep]


def test_an_existing_path_with_glob_characters_is_itself(tmp_path: Path) -> None:
    literal, _ = write(tmp_path, "part[1].jsonl", "part1.jsonl")
    assert find_sources([literal]) == [literal]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.jsonl", r"missing\.jsonl can't be read: No such file"),
        ("*.missing", r"\*\.missing matches no file"),
        ("folder", r"folder is a directory: give its files, for example .*folder/\*\.jsonl"),
        ("a.jsonl/b", r"a\.jsonl/b can't be read: Not a directory"),
    ],
)
def test_what_cant_be_read_is_said_before_the_first_row(tmp_path: Path, source: str, message: str) -> None:
    (good,) = write(tmp_path, "a.jsonl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=message):
        read_rows([good, str(tmp_path / source)], defaults=SamplingParams(), clock=VirtualClock())


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write(tmp_path, "a.jsonl")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read anything
    with pytest.raises(InputError, match="permission"):
        find_sources([path])


def test_no_source_and_two_stdins_are_refused() -> None:
    with pytest.raises(InputError, match="no input"):
        find_sources([])
    with pytest.raises(InputError, match="more than once"):
        find_sources(["-", "-"])


def test_lines_lose_their_ends_and_blank_lines_are_only_counted() -> None:
    lines = read_lines("-", io.BytesIO(b'\n"a"\r\n \t\r\n"b"'))
    assert list(lines) == [("stdin:2", b'"a"'), ("stdin:4", b'"b"')]


def test_a_byte_order_mark_is_dropped_at_the_start_of_each_file_only(tmp_path: Path) -> None:
    path = tmp_path / "bom.jsonl"
    path.write_bytes(b'\xef\xbb\xbf"a"\n\xef\xbb\xbf"b"\n')
    assert [line.raw for line in read_lines(str(path), None)] == [b'"a"', b'\xef\xbb\xbf"b"']


def test_a_pipe_is_read_without_being_opened_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    paths = find_sources([str(pipe)])
    writer = threading.Thread(target=lambda: pipe.write_bytes(b'"a"\n'))
    writer.start()
    assert [line.raw for line in read_lines(paths[0], None)] == [b'"a"']
    writer.join()


def test_a_file_name_that_isnt_utf8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    try:
        with open(path, "wb") as file:
            file.write(b'"a"\n')
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (line,) = read_lines(os.fsdecode(path), None)
    assert line.where.endswith("caf\\xe9.jsonl:1")


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


def test_a_file_that_vanishes_before_its_turn_is_an_input_error(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.jsonl", "b.jsonl")
    rows = read_rows([first, second], defaults=SamplingParams(), clock=VirtualClock())
    next(rows)
    Path(second).unlink()
    with pytest.raises(InputError, match=r"b\.jsonl can't be read: No such file"):
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


@given(st.lists(st.binary(max_size=12)), st.integers(1, 9))
def test_lines_of_stdin_are_whole_however_they_arrive(lines: list[bytes], chunk: int) -> None:
    data = b"\n".join(lines)
    with tempfile.TemporaryFile() as file, pytest.MonkeyPatch.context() as patch:
        file.write(data)
        file.seek(0)
        patch.setattr(sources, "_CHUNK", chunk)
        patch.setattr(sys, "stdin", file)
        assert list(read_lines("-", None)) == list(read_lines("-", io.BytesIO(data)))


def test_a_closed_stdin_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sys, "stdin", None)
    with pytest.raises(InputError, match="stdin is closed"):
        next(read_lines("-", None))
