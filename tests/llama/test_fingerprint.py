from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.llama.fingerprint import fingerprint
from tests.llama.split import write_split

GIB = 1 << 30


def test_content_decides_and_the_name_does_not(tmp_path: Path) -> None:
    a, b = tmp_path / "a.gguf", tmp_path / "b.gguf"
    a.write_bytes(b"weights")
    b.write_bytes(b"weights")
    assert fingerprint(a) == fingerprint(b)
    assert fingerprint(a).startswith("sha256:")
    assert len(fingerprint(a)) == len("sha256:") + 64
    b.write_bytes(b"weightz")
    assert fingerprint(a) != fingerprint(b)


@pytest.mark.parametrize("at", [0, (1 << 20) - 1, 32 * (40 * GIB // 64) + 100, 40 * GIB - 1])
def test_head_samples_and_end_count(tmp_path: Path, at: int) -> None:
    path = tmp_path / "big.gguf"
    with path.open("wb") as file:
        file.truncate(40 * GIB)  # sparse: takes no room, and would take a minute to read whole
    before = fingerprint(path)
    with path.open("r+b") as file:
        file.seek(at)
        file.write(b"x")
    assert fingerprint(path) != before


def test_size_counts(tmp_path: Path) -> None:
    a, b = tmp_path / "a", tmp_path / "b"
    a.write_bytes(bytes(100))
    b.write_bytes(bytes(101))
    assert fingerprint(a) != fingerprint(b)


def test_every_part_of_a_split_model_counts(tmp_path: Path) -> None:
    first, second = write_split(tmp_path / "big", parts=2)
    before = fingerprint(first)
    data = bytearray(second.read_bytes())
    data[-1] ^= 1
    second.write_bytes(data)
    assert fingerprint(first) != before
