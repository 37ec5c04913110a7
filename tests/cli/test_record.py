"""run.json of real runs: what it says of the scheduler and of long rows is what they were run with."""

from __future__ import annotations

from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from cbatch.cli import job
from cbatch.cli.replay import replay
from cbatch.cli.run import run
from cbatch.llama import machine
from tests.e2e.command import run_json, write_rows

app = typer.Typer()
app.command()(run)
app.command()(replay)


@pytest.mark.parametrize("command", [["run", "--no-supervise"], ["replay", "--request-rate", "inf"]])
def test_parameters_are_told_as_resolved(
    command: list[str], tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    monkeypatch.setattr(machine, "available_memory", lambda: 1 << 30)
    monkeypatch.setattr(job, "tune_interpreter", lambda: None)  # not of this process
    rows = write_rows(tmp_path / "rows.jsonl", [{"prompt": "one"}, {"prompt": "two"}])
    options = ["--max-tokens", "2", "-q", "--no-auto", "--on-overflow", "truncate-left", "-o", str(tmp_path / "out")]
    ran = CliRunner().invoke(app, [*command, str(rows), "-m", str(tiny_model), *options])
    assert ran.exit_code == 0, ran.exception
    record = run_json(tmp_path / "out")
    assert record["scheduler"]["prefix_cache_bytes"] == 1 << 28
    assert record["overflow"] == {"policy": "truncate-left", "keep": 1}
