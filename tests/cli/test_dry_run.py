"""`--dry-run` on the tiny model: what it tells, and that it leaves nothing."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from cbatch.cli.dry_run import DryRun, dry_run
from cbatch.cli.job_time import Trial
from cbatch.cli.options import OutputFormat, Summary
from cbatch.cli.run_options import RunOptions
from cbatch.clock import WallClock
from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, Runner
from cbatch.errors import InputError, Interrupted
from cbatch.inputs import RowStream, read_rows
from cbatch.llama.model import Model
from cbatch.types import EngineView, RequestOutput, RowRef, StepRecord
from tests.e2e.command import EXAMPLES, write_rows
from tests.tune.test_profile import stored

_DEFAULTS: dict[str, Any] = {
    "inputs": ["x"], "model": "m", "output_format": OutputFormat.parquet, "summary": Summary.json, "quiet": True,
    "raw": False, "parse_special": False, "max_tokens": 16, "temperature": 0.0, "top_k": 0, "top_p": 1.0,
    "min_p": 0.0, "typical_p": 1.0, "repetition_penalty": 1.0, "presence_penalty": 0.0, "frequency_penalty": 0.0,
    "seed": 0, "ignore_eos": False, "max_num_seqs": 4, "max_num_batched_tokens": 2048, "kv": "auto",
    "cpu_mask": "none", "priority": "normal", "ubatch": 512, "gpu_layers": -1, "main_gpu": None, "threads": 1,
    "prefix_cache": "auto", "no_prefix_cache": False, "preempt": "swap", "kv_overcommit": False, "ageing": 300.0,
    "compact": True, "on_overflow": "error", "batching": "continuous", "static_wait": 0.0, "input_format": "auto",
    "offset": 0, "dry_run": True, "order": "input",
}  # fmt: skip


def run_options(**given: Any) -> RunOptions:
    return RunOptions(**{**dict.fromkeys(RunOptions.__dataclass_fields__), **_DEFAULTS, **given})


def read(options: RunOptions) -> RowStream:
    return read_rows(options.inputs, defaults=options.sampling(), clock=WallClock())


def looked(
    path: Path, model: Path, capsys: pytest.CaptureFixture[str], *, code: int = 0, rows: int = 3, **given: Any
) -> dict[str, Any]:
    """The preview as JSON; nothing but that may be left."""
    before = sorted(path.parent.iterdir())
    assert dry_run(run_options(inputs=[str(path)], model=str(model), **given), num_shown=rows, seconds=0.5) == code
    assert sorted(path.parent.iterdir()) == before
    record = json.loads(capsys.readouterr().out)
    assert isinstance(record, dict)
    return record


def test_a_small_job_is_seen_whole(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"id": f"r{i}", "prompt": f"word {i}"} for i in range(12)])
    found = looked(path, tiny_model, capsys, rows=2, ignore_eos=True)
    assert (found["rows_read"], found["all_read"], found["faults"]) == (12, True, [])
    assert [(row["row"], row["id"], row["where"]) for row in found["prompts"]] == [
        (1, "r0", f"{path}:1"),
        (2, "r1", f"{path}:2"),
    ]
    row = found["prompts"][0]
    assert {"text": "<|im_start|>", "kind": "special"} in row["pieces"]
    assert "word 0" in "".join(piece["text"] for piece in row["pieces"])
    assert row["max_tokens"] == 16
    assert sum(found["lengths"]["counts"]) == found["lengths"]["count"] == 12
    assert found["memory"]["slots"] == 4
    assert found["memory"]["kv_bytes"] > 0
    time = found["estimate"]
    assert (time["rows_begun"], time["rows_finished"], time["at_once"]) == (12, 12, 4)
    assert time["output_tokens"] == [16, 16]
    assert time["rows_total"] == 12
    assert 0 < time["total_s"][0] <= time["total_s"][1] < 5
    assert time["prefill_tokens_per_s"] > 0
    assert any("chat template" in note for note in found["notes"])


def test_it_looks_at_the_job_with_the_settings_that_a_run_takes(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    stored(tiny_model, tmp_path / "cache" / "cbatch")
    path = write_rows(tmp_path / "rows.jsonl", [{"prompt": f"word {i}"} for i in range(3)])
    found = looked(path, tiny_model, capsys, auto=True, given=("max_num_seqs",))
    assert "profile of 2026-11-30: f16, flash attention off" in found["notes"]
    assert found["memory"]["kv_type"] == "f16"
    without = looked(path, tiny_model, capsys)
    assert "defaults: --no-auto" in without["notes"]
    assert without["memory"]["kv_type"] == "bf16"


def test_rows_are_tried_in_the_order_that_was_chosen_for_them(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Long ones first would tell nothing of the others."""
    configs: list[SchedulerConfig] = []

    def engine(runner: Runner, config: SchedulerConfig, **more: Any) -> Engine:
        configs.append(config)
        return Engine(runner, config, **more)

    monkeypatch.setattr("cbatch.cli.dry_run.Engine", engine)
    looked(write_rows(tmp_path / "rows.jsonl", [{"prompt": "x"}]), tiny_model, capsys)
    assert [config.drain for config in configs] == ["arrival"]


def test_a_long_job_is_tried_for_a_while(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    rows = [{"prompt": f"word {i}", "max_tokens": 1500} for i in range(400)]
    found = looked(write_rows(tmp_path / "rows.jsonl", rows), tiny_model, capsys, ignore_eos=True)
    time = found["estimate"]
    assert 0.4 < time["measured_s"] < 1.5
    assert time["rows_begun"] < 400
    assert time["output_tokens"] == [1500, 1500]
    assert time["total_s"][0] > 5


def test_the_sample_is_spread_over_the_window(tmp_path: Path, tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    path = write_rows(
        tmp_path / "rows.jsonl", [{"prompt": "x", "max_tokens": 1800, "priority": i % 2} for i in range(100)]
    )
    options = run_options(inputs=[str(path)], ignore_eos=True, model=str(tiny.config.path))
    job = DryRun(options, WallClock(), tiny)
    begun: list[str] = []
    finished = Trial.finished

    def note(trial: Trial, ref: RowRef, output: RequestOutput) -> None:
        finished(trial, ref, output)
        begun.extend([ref.where] if output.admitted_ns is not None else [])

    monkeypatch.setattr(Trial, "finished", note)
    job.preview(read(options), 0, 0.2)
    lines = [int(where.rpartition(":")[2]) for where in begun]
    assert lines[0] == 1, "a part of the first one is tried alone"
    assert sorted(lines[1:5]) == sorted(lines[5:]) == [1, 35, 69, 90], "parts in all slots, then all of them"


def test_faulty_rows_are_told(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "faults.jsonl"
    path.write_bytes((EXAMPLES / "faults.jsonl").read_bytes())
    found = looked(path, tiny_model, capsys, code=3)
    assert found["rows_read"] == 34
    assert len(found["faults"]) + found["lengths"]["count"] == 34
    codes = {fault["id"]: fault["code"] for fault in found["faults"]}
    assert codes["temperature"] == "invalid_parameter"
    assert all(fault["message"] and fault["where"].startswith(str(path)) for fault in found["faults"])
    assert found["estimate"]["rows_total"] == 34


@pytest.mark.parametrize(
    ("policy", "code", "counted"),
    [("error", 3, "refused"), ("truncate-left", 0, "prompts_cut"), ("shift", 0, "outgrown")],
)
def test_rows_that_are_too_long(
    tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str], policy: str, code: int, counted: str
) -> None:
    rows: list[dict[str, Any]] = [{"prompt": "x" * 400, "max_tokens": 300}, {"prompt": "y"}]
    path = write_rows(tmp_path / "rows.jsonl", rows)
    found = looked(path, tiny_model, capsys, code=code, ctx=256, on_overflow=policy)
    assert found["memory"]["most_cells"] == 256
    assert found["memory"]["policy"] == policy
    assert found["memory"][counted] == 1
    assert [fault["code"] for fault in found["faults"]] == (["prompt_too_long"] if code else [])
    assert found["estimate"] is not None


def test_nothing_to_run(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / "rows.jsonl"
    for text, code in (("", 0), ("{\n", 3)):
        path.write_text(text)
        found = looked(path, tiny_model, capsys, code=code)
        assert found["lengths"] is None
        assert found["estimate"] is None
        assert found["prompts"] == []


def test_for_people(tmp_path: Path, tiny_model: Path, capsys: pytest.CaptureFixture[str]) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"prompt": "hello", "max_tokens": 3}] * 2)
    options = replace(run_options(inputs=[str(path)], model=str(tiny_model)), summary=Summary.table, quiet=False)
    assert dry_run(options, seconds=0.2) == 0
    ran = capsys.readouterr()
    assert "trying rows on the engine" in ran.err
    assert "<|im_start|>user" in ran.out
    assert "Tokens of prompts" in ran.out
    assert "nothing was written" in ran.out
    assert list(tmp_path.iterdir()) == [path]


@pytest.mark.parametrize("after_steps", [0, 1, 5, 12, 40])
def test_it_can_be_stopped_at_any_time(
    tmp_path: Path, tiny: Model, monkeypatch: pytest.MonkeyPatch, after_steps: int
) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"prompt": "hello", "max_tokens": 1500}] * 9)
    options = run_options(inputs=[str(path)], model=str(tiny.config.path), ignore_eos=True)
    job = DryRun(options, WallClock(), tiny)
    step = Trial.step

    def note(trial: Trial, record: StepRecord, view: Callable[[], EngineView]) -> None:
        step(trial, record, view)
        if len(trial.steps) == after_steps:
            job.control.abort()

    monkeypatch.setattr(Trial, "step", note)
    if after_steps == 0:
        job.control.abort()
    with pytest.raises(Interrupted, match="nothing was written"):
        job.preview(read(options), 3, 20.0)


def test_a_model_that_is_too_slow_is_given_up(tmp_path: Path, tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("cbatch.cli.dry_run._PATIENCE_S", 0.0)
    path = write_rows(tmp_path / "rows.jsonl", [{"prompt": "hello", "max_tokens": 1500}] * 9)
    options = run_options(inputs=[str(path)], model=str(tiny.config.path), ignore_eos=True)
    found = DryRun(options, WallClock(), tiny).preview(read(options), 3, 20.0)
    assert found.memory.slots == 4
    assert found.estimate is None or found.estimate.measured_s < 5


def test_inputs_that_cannot_be_read(tmp_path: Path, tiny_model: Path) -> None:
    with pytest.raises(InputError):
        dry_run(run_options(inputs=[str(tmp_path / "none.jsonl")], model=str(tiny_model)))
