from __future__ import annotations

import io

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.inputs import lines
from cbatch.inputs.fault import Fault
from cbatch.inputs.lines import line_blocks, text_of
from cbatch.inputs.streams import ByteStream
from tests.inputs.reading import good, read


class Trickle:
    """Gives a few bytes at a time."""

    def __init__(self, data: bytes, size: int) -> None:
        self._data = io.BytesIO(data)
        self._size = size

    def read1(self, size: int = -1, /) -> bytes:
        return self._data.read(self._size)

    def close(self) -> None:
        self._data.close()


@given(st.lists(st.binary(max_size=12)), st.integers(1, 9))
def test_lines_are_whole_however_they_arrive(parts: list[bytes], size: int) -> None:
    data = b"\n".join(parts)
    found = [line for block in line_blocks(ByteStream(Trickle(data, size))) for line in block]
    assert found == data.removesuffix(b"\n").split(b"\n") if data else not found


def test_lines_lose_their_ends_and_blank_lines_are_only_counted() -> None:
    rows = good(read(b'\n"a"\r\n \t\r\n"b"'))
    assert [(row.ref.where, row.content) for row in rows] == [("stdin:2", "a"), ("stdin:4", "b")]


def test_a_line_that_is_too_long_is_a_fault_and_isnt_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(lines, "MAX_LINE", 5)
    for size in (1, 3, 50):
        stream = ByteStream(Trickle(b"1234567890\n12345\n123456789", size))
        found = [line for block in line_blocks(stream) for line in block]
        assert [line[:6] for line in found] == [b"123456", b"12345", b"123456"]
        assert size == 50 or max(map(len, found)) == 6
    with pytest.raises(Fault, match="more than 0 MiB: shorten it") as caught:
        text_of(b"123456")
    assert caught.value.code == "line_too_long"
