"""`cbatch plan` in this process, on the tiny model: when a profile is used, and what is refused as by a run."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner, Result

from cbatch.cli.plan import plan
from cbatch.errors import ModelError, UsageError
from cbatch.llama import machine
from cbatch.llama.tiny import write_tiny
from tests.e2e.command import write_rows
from tests.tune.test_profile import RECORD, stored

app = typer.Typer()
app.command()(plan)

OTHER = "the profile was measured with other settings"


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(tmp_path / "rows.jsonl", [{"prompt": f"word {i}"} for i in range(4)])


def with_profile(model: Path, cache: Path, **options: Any) -> Path:
    """The model, once there is a profile of it."""
    stored(model, cache / "cache" / "cbatch", options={**RECORD["options"], **options})
    return model


def invoked(rows: Path, model: Path, *arguments: object) -> Result:
    given = [rows, "--model", model, "--max-tokens", 4, "--summary", "json", "-q", *arguments]
    return CliRunner().invoke(app, list(map(str, given)))


def planned(rows: Path, model: Path, *arguments: object) -> dict[str, Any]:
    ran = invoked(rows, model, *arguments)
    assert ran.exit_code == 0, ran.exception
    found = json.loads(ran.stdout)
    assert isinstance(found, dict)
    return found


@pytest.mark.parametrize(
    ("options", "arguments", "told"),
    [
        ({}, ["--kv", "unified", "--kv-cells", 2048], "kv split, not unified"),
        ({"threads": None}, ["--threads", 1], "threads 2, not 1"),
    ],
)
def test_a_profile_of_other_settings_leads_to_a_trial(
    rows: Path,
    tiny_model: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    options: dict[str, Any],
    arguments: list[object],
    told: str,
) -> None:
    monkeypatch.setattr(machine, "default_threads", lambda: 2)
    model = with_profile(tiny_model, tmp_path, **options)
    found = planned(rows, model, *arguments)
    assert found["settings"].startswith(OTHER)
    assert told in found["settings"]
    assert found["time"] is None
    assert found["preview"]["estimate"] is not None


def test_a_profile_of_some_cpus_is_theirs(
    rows: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(machine, "default_threads", lambda: 2)
    cpu = machine.allowed_cpus()[0]
    stored(tiny_model, tmp_path / "cache" / "cbatch", mask=(cpu,))
    exact = ("--kv-type", "f16", "--flash-attn", "off")
    assert planned(rows, tiny_model, "--cpu-mask", cpu, *exact)["time"] is not None


def test_a_profile_of_all_cpus_isnt_one_of_some(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    model = with_profile(tiny_model, tmp_path, threads=8)
    found = planned(rows, model, "--cpu-mask", machine.allowed_cpus()[0])
    assert found["settings"].startswith("no profile")
    assert found["time"] is None
    assert found["preview"]["estimate"] is not None


def test_a_pool_of_so_many_cells_is_planned_by_a_profile_of_pools(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    model = with_profile(tiny_model, tmp_path, kv="unified")
    found = planned(rows, model, "--kv", "unified", "--kv-cells", 2048, "--kv-type", "f16", "--flash-attn", "off")
    assert found["time"] is not None


def test_a_plan_of_several_inputs_needs_no_output(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    model = with_profile(tiny_model, tmp_path)
    other = write_rows(tmp_path / "other.jsonl", [{"prompt": f"other {i}"} for i in range(3)])
    for inputs in ([rows, other], [tmp_path / "*.jsonl"]):
        assert planned(inputs[0], model, *inputs[1:])["preview"]["rows_read"] == 7


def test_rows_that_arent_there_are_told_before_the_model(tmp_path: Path) -> None:
    ran = invoked(tmp_path / "none.jsonl", tmp_path / "none.gguf")
    assert str(ran.exception) == f"{tmp_path}/none.jsonl can't be read: No such file or directory"


def test_what_a_run_refuses_a_plan_refuses(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    model = with_profile(tiny_model, tmp_path)
    ran = invoked(rows, model, "--ctx", 256, "--on-overflow", "truncate-left", "--keep", 200)
    assert isinstance(ran.exception, UsageError)
    assert str(ran.exception) == "--keep is 200, and a context of 256 can keep half of it: give 128 or less"
    model = with_profile(tiny_model, tmp_path, kv_type="bf16")
    ran = invoked(rows, model, "--on-overflow", "shift", "--kv-type", "bf16", "--flash-attn", "off")
    assert isinstance(ran.exception, UsageError)
    assert "can't rotate keys in bf16" in str(ran.exception)


def test_a_plan_of_a_model_that_cant_shift_is_refused(rows: Path, tmp_path: Path) -> None:
    model = with_profile(write_tiny(tmp_path / "gemma3.gguf", kind="gemma3"), tmp_path)
    ran = invoked(rows, model, "--on-overflow", "shift", "--kv-type", "f16", "--flash-attn", "off")
    assert isinstance(ran.exception, UsageError)
    assert "it looks through sliding windows" in str(ran.exception)


def test_lengths_are_of_rows_that_can_end_earlier(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    model = with_profile(tiny_model, tmp_path)
    assert planned(rows, model, "--output-len", 2)["time"]["output_tokens"] == [2, 2]
    assert planned(rows, model, "--output-len", 2, "--ignore-eos")["time"]["output_tokens"] == [4, 4]


def test_lengths_that_arent_used_are_told(rows: Path, tiny_model: Path) -> None:
    notes = planned(rows, tiny_model, "--output-len", 2)["preview"]["notes"]
    assert any(note.startswith("--output-len isn't used") for note in notes)
    assert not any("--output-len" in note for note in planned(rows, tiny_model)["preview"]["notes"])


def test_the_memory_check_can_be_left_out(
    rows: Path, tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    model = with_profile(tiny_model, tmp_path)
    monkeypatch.setattr(machine, "memory_limit", lambda: 300_000)
    ran = invoked(rows, model, "--gpu-layers", 0)
    assert isinstance(ran.exception, ModelError)
    assert "--no-memory-check" in str(ran.exception)
    assert planned(rows, model, "--gpu-layers", 0, "--no-memory-check")["time"] is not None
