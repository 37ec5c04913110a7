from __future__ import annotations

import hashlib
import os
import time
from pathlib import Path

import pytest

from cbatch.errors import InputError
from cbatch.inputs import identity
from cbatch.inputs.identity import WHOLE


def test_each_file_is_named_with_its_size_and_a_hash_of_all_of_it(tmp_path: Path) -> None:
    (tmp_path / "b.jsonl").write_bytes(b"bb")
    (tmp_path / "a.jsonl").write_bytes(b"a")
    found = identity([f"{tmp_path}/*.jsonl", str(tmp_path / "a.jsonl"), str(tmp_path)])
    assert [Path(file["name"]).name for file in found] == ["a.jsonl", "b.jsonl", "a.jsonl", "a.jsonl", "b.jsonl"]
    assert found[1] == {
        "name": f"{tmp_path}/b.jsonl",
        "size": 2,
        "fingerprint": f"sha256:{hashlib.sha256(b'bb').hexdigest()}",
    }


def test_a_large_file_is_told_apart_fast(tmp_path: Path) -> None:
    path = tmp_path / "large.parquet"
    with path.open("wb") as file:
        file.truncate(2**30)  # takes no space
    begin = time.perf_counter()
    (before,) = identity([str(path)])
    assert time.perf_counter() - begin < 1
    seen = {before["fingerprint"]}
    for at in (2**20 - 1, 2**30 // 256 * 7, 2**30 - 1):
        with path.open("r+b") as file:
            file.seek(at)
            file.write(b"x")
        seen.add(identity([str(path)])[0]["fingerprint"])
    os.truncate(path, 2**30 + 1)
    seen.add(identity([str(path)])[0]["fingerprint"])
    assert len(seen) == 5
    assert WHOLE < 2**30


def test_what_can_be_read_only_once_has_no_fingerprint(tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe")
    assert identity([str(tmp_path / "pipe"), "-"]) == [
        {"name": f"{tmp_path}/pipe", "kind": "pipe"},
        {"name": "stdin", "kind": "pipe"},
    ]
    (stdin,) = identity(["-"], b"abc")
    assert stdin == {
        "name": "stdin",
        "head_bytes": 3,
        "fingerprint": f"sha256:{hashlib.sha256(b'abc').hexdigest()}",
    }


def test_what_isnt_there_is_refused() -> None:
    with pytest.raises(InputError, match="No such file"):
        identity(["missing.jsonl"])
