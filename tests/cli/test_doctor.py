from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cbatch.cli.doctor import doctor
from cbatch.llama import machine, probe
from cbatch.llama.probe import REINSTALL_LINE, ProbeResult

app = typer.Typer()
app.command()(doctor)


@pytest.fixture(autouse=True)
def own_cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))


def _run(*arguments: str) -> tuple[int, str]:
    """Exit code and output."""
    result = CliRunner().invoke(app, list(arguments))
    return result.exit_code, result.output


def _crash(monkeypatch: pytest.MonkeyPatch) -> None:
    result = ProbeResult(frozenset({"F16", "Q4_1"}), {"Q4_1": "killed by SIGSEGV"}, {}, cached=False)
    monkeypatch.setattr(probe, "COMMON_TYPES", result.types)
    monkeypatch.setattr(probe, "probe", lambda types, fresh: result)


def test_all_well() -> None:
    code, output = _run()
    assert code == 0
    names = [line.split()[0] for line in output.splitlines()]
    assert names[:5] == ["cbatch", "library", "python", "system", "processor"]
    assert "llama-cpp-python 0.3.36" in output
    assert "work here: BF16 F16 IQ4_XS Q4_0 Q4_1 Q4_K Q5_K Q6_K Q8_0" in output
    assert output.rstrip().endswith(REINSTALL_LINE)


def test_json_has_every_finding(tiny_model: Path) -> None:
    code, output = _run("--json", "--model", str(tiny_model))
    assert code == 0
    report = json.loads(output)
    assert report["ok"]
    assert report["probe"]["crashed"] == report["probe"]["unknown"] == {}
    assert "F32" in report["probe"]["types"]
    assert report["model"]["weight_types"] == ["F32"]
    assert report["memory_available_bytes"] > 0
    assert report["default_threads"] >= 1
    assert report["reinstall_line"] == REINSTALL_LINE


def test_a_crash_is_shown_and_exits_with_1(monkeypatch: pytest.MonkeyPatch) -> None:
    _crash(monkeypatch)
    code, output = _run()
    assert code == 1
    assert "work here: F16\n" in output
    assert "Q4_1: FAILS, killed by SIGSEGV" in output
    assert "reinstall    needed: this build of the library crashes" in output
    assert json.loads(_run("--json")[1])["reinstall"] == "needed"


def test_an_unusable_model_is_shown_and_exits_with_1() -> None:
    code, output = _run("--model", "absent.gguf")
    assert code == 1
    assert "NOT USABLE: absent.gguf doesn't exist" in output


def test_features_left_out_recommend_a_reinstall(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "cpu_features_present", lambda: frozenset({"AVX2", "AMX_INT8"}))
    monkeypatch.setattr(machine, "features_compiled", lambda: frozenset({"AVX2", "OPENMP"}))
    code, output = _run()
    assert code == 0
    assert "left out   AMX_INT8: the processor has it, the library was built without" in output
    assert "reinstall    recommended" in output


def test_gpus_are_listed(monkeypatch: pytest.MonkeyPatch) -> None:
    gpu = machine.GpuDevice("CUDA0", "NVIDIA H200", 140_000_000_000, 150_000_000_000, integrated=False)
    monkeypatch.setattr(machine, "gpu_devices", lambda: [gpu])
    assert "CUDA0, NVIDIA H200, 150.0 GB, 140.0 GB free" in _run()[1]
