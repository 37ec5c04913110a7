from __future__ import annotations

import errno
import os
from pathlib import Path
from typing import Any

import pytest

from cbatch.outputs import WriteError
from cbatch.outputs.journal.reader import SegmentReader
from cbatch.outputs.journal.segment import Segment
from tests.outputs.journal.test_frames import SCHEMA_OF, rows


def read(path: Path) -> list[list[int]]:
    return [batches["results"]["n"].to_pylist() for batches in SegmentReader(path)]


def refuse_after(monkeypatch: pytest.MonkeyPatch, good: int) -> None:
    """A disk that is full after so many bytes more."""
    write, left = os.write, [good]

    def limited(descriptor: int, data: Any) -> int:
        if not left[0]:
            raise OSError(errno.ENOSPC, "No space left on device")
        done = write(descriptor, data[: left[0]])
        left[0] -= done
        return done

    monkeypatch.setattr(os, "write", limited)


def test_frames_are_there_as_soon_as_they_are_appended(tmp_path: Path) -> None:
    path = tmp_path / "00000.wal"
    segment = Segment(path, SCHEMA_OF)
    assert read(path) == []
    segment.append({"results": rows(1, 2)})
    assert read(path) == [[1, 2]]
    segment.append({"results": rows(3)})
    assert read(path) == [[1, 2], [3]]
    assert segment.size == path.stat().st_size
    segment.close()
    segment.close()


def test_a_full_disk_leaves_the_frames_before(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "00000.wal"
    segment = Segment(path, SCHEMA_OF)
    segment.append({"results": rows(1)})
    with monkeypatch.context() as patches:
        refuse_after(patches, 10)
        with pytest.raises(WriteError, match=r"00000\.wal can't be written: No space left on device\. What was fin"):
            segment.append({"results": rows(2)})
    assert path.stat().st_size == segment.size
    segment.append({"results": rows(3)})
    assert read(path) == [[1], [3]]
    segment.close()


def test_a_disk_that_can_not_even_cut_off_half_a_frame(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.EIO, "Input/output error")

    path = tmp_path / "00000.wal"
    segment = Segment(path, SCHEMA_OF)
    segment.append({"results": rows(1)})
    refuse_after(monkeypatch, 10)
    monkeypatch.setattr(os, "ftruncate", refuse)
    with pytest.raises(WriteError, match="No space left"):
        segment.append({"results": rows(2)})
    assert read(path) == [[1]]
    segment.close()


def test_a_segment_that_can_not_begin_leaves_no_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    refuse_after(monkeypatch, 10)
    with pytest.raises(WriteError, match="No space left"):
        Segment(tmp_path / "00000.wal", SCHEMA_OF)
    assert list(tmp_path.iterdir()) == []


def test_a_segment_never_takes_the_place_of_another(tmp_path: Path) -> None:
    path = tmp_path / "00000.wal"
    path.write_bytes(b"precious")
    with pytest.raises(WriteError, match="File exists"):
        Segment(path, SCHEMA_OF)
    assert path.read_bytes() == b"precious"
