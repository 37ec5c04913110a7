from __future__ import annotations

import random
from collections.abc import Sequence
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.outputs.journal.frames import HEAD, batches_frame, checksum, schemas_frame
from cbatch.outputs.journal.reader import SegmentReader
from tests.fuzzing import fuzzing
from tests.outputs.journal.test_frames import SCHEMA_OF, rows

BATCHES = [rows(1), rows(2, 3), rows(), rows(400)]
FRAMES = [schemas_frame(SCHEMA_OF), *(batches_frame({"results": batch}) for batch in BATCHES)]
WHOLE = b"".join(FRAMES)


def read(path: Path, data: bytes) -> tuple[list[pa.RecordBatch], int]:
    path.write_bytes(data)
    reader = SegmentReader(path)
    found = [batches["results"] for batches in reader]
    return found, reader.dropped_bytes


def kept(data: bytes) -> list[pa.RecordBatch]:
    """Rows of the frames that the data begins with."""
    found, end = [], len(FRAMES[0])
    for frame, batch in zip(FRAMES[1:], BATCHES, strict=True):
        end += len(frame)
        if len(data) >= end and batch.num_rows:
            found.append(batch)
    return found


def same(found: Sequence[pa.RecordBatch], wanted: Sequence[pa.RecordBatch]) -> bool:
    return len(found) == len(wanted) and all(a.equals(b) for a, b in zip(found, wanted, strict=True))


def test_a_whole_segment(tmp_path: Path) -> None:
    found, dropped = read(tmp_path / "s", WHOLE)
    assert same(found, [batch for batch in BATCHES if batch.num_rows])
    assert dropped == 0


def test_a_segment_cut_at_every_byte(tmp_path: Path) -> None:
    ends = [sum(map(len, FRAMES[:i])) for i in range(len(FRAMES) + 1)]
    for cut in range(len(WHOLE)):
        found, dropped = read(tmp_path / "s", WHOLE[:cut])
        assert same(found, kept(WHOLE[:cut]))
        assert dropped == cut - max(end for end in ends if end <= cut)


def test_a_frame_with_a_flipped_bit_ends_the_segment(tmp_path: Path) -> None:
    start = len(FRAMES[0]) + len(FRAMES[1])
    for place in range(start, start + len(FRAMES[2])):
        data = bytearray(WHOLE)
        data[place] ^= 0x10
        found, dropped = read(tmp_path / "s", bytes(data))
        assert same(found, BATCHES[:1])
        assert dropped == len(WHOLE) - start


def forge(kind: int, payload: bytes) -> bytes:
    """A frame whose checksum is right, whatever it holds."""
    return HEAD.pack(b"cbj1", kind, len(payload), checksum(kind, payload)) + payload


@pytest.mark.parametrize("kind", [0, 1, 2])
def test_garbage_with_a_right_checksum_ends_the_segment(tmp_path: Path, kind: int) -> None:
    generator = random.Random(kind)
    for length in range(200):
        data = FRAMES[0] + FRAMES[1] + forge(kind, generator.randbytes(length)) + FRAMES[2]
        found, _ = read(tmp_path / "s", data)
        assert same(found, BATCHES[:1])


def test_rows_before_their_schemas_are_dropped(tmp_path: Path) -> None:
    assert read(tmp_path / "s", FRAMES[1] + FRAMES[0]) == ([], len(FRAMES[0] + FRAMES[1]))


def test_a_missing_file_is_an_os_error(tmp_path: Path) -> None:
    with pytest.raises(FileNotFoundError):
        list(SegmentReader(tmp_path / "none"))


damaged = st.one_of(
    st.binary(max_size=300),
    st.integers(0, len(WHOLE)).map(lambda cut: WHOLE[:cut]),
    st.tuples(st.integers(0, len(WHOLE) - 1), st.integers(1, 255)).map(
        lambda at: WHOLE[: at[0]] + bytes([WHOLE[at[0]] ^ at[1]]) + WHOLE[at[0] + 1 :]
    ),
    st.tuples(st.integers(0, len(WHOLE)), st.binary(min_size=1, max_size=20)).map(
        lambda at: WHOLE[: at[0]] + at[1] + WHOLE[at[0] :]
    ),
    st.tuples(st.integers(0, 3), st.binary(max_size=200)).map(lambda at: FRAMES[0] + forge(*at)),
)


@fuzzing(0.2)
@given(data=damaged)
def test_fuzz_a_damaged_segment_gives_a_prefix(
    part: int, tmp_path_factory: pytest.TempPathFactory, data: bytes
) -> None:
    path = tmp_path_factory.getbasetemp() / "segment"
    found, dropped = read(path, data)
    assert same(found, [batch for batch in BATCHES if batch.num_rows][: len(found)])
    assert 0 <= dropped <= len(data)
