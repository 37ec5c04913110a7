from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cbatch.cli.models import models
from cbatch.llama import locate
from cbatch.llama.tiny import write_tiny, write_tiny_lora

app = typer.Typer()
app.command()(models)


@pytest.fixture(autouse=True)
def empty_home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    for name in ("HF_HOME", "HF_HUB_CACHE", "XDG_CACHE_HOME", "LLAMA_CACHE"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("HOME", str(tmp_path / "home"))
    monkeypatch.setattr(locate, "_DEMO_PACKAGE", "no-such-distribution")
    monkeypatch.chdir(tmp_path)


def _run(*arguments: str) -> str:
    result = CliRunner().invoke(app, list(arguments))
    assert result.exit_code == 0, result.output
    return result.output


def test_table_and_what_is_not_usable(tmp_path: Path) -> None:
    write_tiny(tmp_path / "a b.gguf", weight_type="Q4_0")
    write_tiny(tmp_path / "c.gguf")
    write_tiny_lora(tmp_path / "lora.gguf")
    lines = _run().splitlines()
    assert lines[0].split() == ["SIZE", "ARCHITECTURE", "WEIGHTS", "--model"]
    assert [line.split()[2:] for line in lines[1:3]] == [["llama", "Q4_0", "'a", "b.gguf'"], ["llama", "F32", "c.gguf"]]
    assert {line.index("llama") for line in lines[1:3]} == {lines[0].index("ARCHITECTURE")}
    assert lines[3:6] == ["", "Found too, and not usable:", "  lora.gguf"]
    assert lines[6].strip().startswith("is a LoRA adapter")


def test_nothing_found_says_how_to_get_one() -> None:
    output = _run()
    assert "No model found here" in output
    assert "pip install 'cbatch[demo]'" in output
    assert "--model hf:" in output


def test_json(tmp_path: Path) -> None:
    assert json.loads(_run("--json")) == []
    path = write_tiny(tmp_path / "m.gguf")
    (found,) = json.loads(_run("--json"))
    assert found == {
        "spec": "m.gguf",
        "path": str(path),
        "bytes": path.stat().st_size,
        "architecture": "llama",
        "quantisation": "F32",
        "problem": None,
    }
