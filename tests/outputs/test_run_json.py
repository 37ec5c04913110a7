from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

import cbatch
from cbatch.errors import OutputError
from cbatch.outputs import WriteError, environment, read_run_json, utc_now, write_run_json


def test_writes_what_it_is_given(tmp_path: Path) -> None:
    record = {"model": {"name": "smöl", "bytes": 2**40}, "seed": 0, "ctx": None}
    path = write_run_json(tmp_path, record)
    assert path == tmp_path / "run.json"
    assert json.loads(path.read_text(encoding="utf-8")) == record
    assert "smöl" in path.read_text(encoding="utf-8")


def test_replaces_an_earlier_one_and_leaves_nothing_else(tmp_path: Path) -> None:
    write_run_json(tmp_path, {"status": "running"})
    write_run_json(tmp_path, {"status": "done"})
    assert json.loads((tmp_path / "run.json").read_text()) == {"status": "done"}
    assert [p.name for p in tmp_path.iterdir()] == ["run.json"]


def test_a_value_that_is_not_json_leaves_the_earlier_one(tmp_path: Path) -> None:
    write_run_json(tmp_path, {"status": "running"})
    with pytest.raises(ValueError, match="JSON compliant"):
        write_run_json(tmp_path, {"rate": float("nan")})
    assert json.loads((tmp_path / "run.json").read_text()) == {"status": "running"}


def test_a_file_name_that_is_not_utf8_is_escaped(tmp_path: Path) -> None:
    record = {"model": "/models/caf\udce9.gguf", "inputs": ["\\\udcff \\udcff 😀"]}
    text = write_run_json(tmp_path, record).read_text(encoding="utf-8")
    assert json.loads(text) == record
    assert "caf\\udce9.gguf" in text


def test_a_missing_directory_is_a_write_error(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"run\.json can't be written: No such file"):
        write_run_json(tmp_path / "gone", {})


def test_environment_names_versions_and_machine() -> None:
    found = json.loads(json.dumps(environment()))
    assert found["versions"]["cbatch"] == cbatch.__version__
    assert found["versions"].keys() == {"cbatch", "python", "llama-cpp-python", "numpy", "pyarrow"}
    assert found["platform"]["machine"]


def test_the_time_is_utc() -> None:
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d\.\d{3}\+00:00", utc_now())


def test_what_was_written_is_read(tmp_path: Path) -> None:
    assert read_run_json(tmp_path) is None
    record = {"status": "running", "inputs": ["caf\udce9.jsonl"]}
    write_run_json(tmp_path, record)
    assert read_run_json(tmp_path) == record


@pytest.mark.parametrize("content", [b"", b'{"status": "run', b"[]", b"\xff", b"[" * 100_000])
def test_a_damaged_one_is_an_output_error(tmp_path: Path, content: bytes) -> None:
    (tmp_path / "run.json").write_bytes(content)
    with pytest.raises(OutputError, match=r"run\.json is damaged: .*--force"):
        read_run_json(tmp_path)


def test_one_that_can_not_be_read_is_an_output_error(tmp_path: Path) -> None:
    (tmp_path / "run.json").mkdir()
    with pytest.raises(OutputError, match=r"run\.json can't be read: Is a directory"):
        read_run_json(tmp_path)
