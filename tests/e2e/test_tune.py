"""`cbatch tune` and `cbatch plan` as a user runs them, on the tiny model."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import pytest

from cbatch.config import ModelConfig
from cbatch.tune.profile import find_profile
from tests.e2e.command import Ran, cbatch, write_rows
from tests.e2e.test_replay import steady, write_trace


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Any:
    """Of the user's cache, in this process and those that it starts."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("XDG_CACHE_HOME", str(tmp_path_factory.mktemp("cache")))
        yield Path(os.environ["XDG_CACHE_HOME"])


def tune(model: Path, *arguments: object) -> Ran:
    return cbatch("tune", "--model", model, "--budget", 2, "--prompt-len", 24, "--output-len", 12, *arguments)


@pytest.fixture(scope="module")
def tuned(tiny_model: Path, cache: Path) -> dict[str, Any]:
    ran = tune(tiny_model, "--summary", "json")
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def test_settings_are_tried_and_one_is_kept(tuned: dict[str, Any], tiny_model: Path) -> None:
    tried = [(each["kv_type"], each["flash_attn"]) for each in tuned["tried"]]
    assert tried[:2] == [("bf16", "on"), ("f16", "on")]
    assert ("f32", "on") in tried
    assert not any("q" in kv_type for kv_type, _ in tried)
    profile = find_profile(ModelConfig(tiny_model))
    assert profile is not None
    assert str(profile.path) == tuned["paths"]["profile"]
    assert profile.options["max_num_seqs"] == tuned["choice"]["max_num_seqs"]
    assert profile.costs.weights_ns[-1] > 0
    assert tuned["seconds"] < 30


def test_simulate_takes_its_profile(tuned: dict[str, Any], tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(5))
    ran = cbatch("simulate", trace, "--profile", tuned["paths"]["profile"], "--summary", "json")
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["completed"] == 5


def test_the_table(tiny_model: Path, tmp_path: Path, cache: Path) -> None:
    ran = tune(tiny_model, "--profile", tmp_path / "p.json", "--allow-kv-quant", "--max-stall", 50)
    assert ran.code == 0, ran.err
    for word in ("tried", "prefill", "x llama.cpp", "slots (predicted)", "tokens a step", "choice", "model"):
        assert word in ran.out
    assert "llama.cpp's defaults" not in ran.out, "steps are bounded: throughput isn't what was tuned for"
    assert max(map(len, ran.out.splitlines()[:20])) <= 80
    assert (tmp_path / "p.json").exists()


def test_rows_are_tuned_for(tiny_model: Path, tmp_path: Path, cache: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [{"prompt": f"word {i}", "max_tokens": 5} for i in range(6)])
    ran = cbatch(
        "tune",
        "--model",
        tiny_model,
        "--for",
        rows,
        "--budget",
        2,
        "--profile",
        tmp_path / "p.json",
        "--summary",
        "json",
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["choice"]["max_num_seqs"] <= 6


def test_goodput(tiny_model: Path, tmp_path: Path, cache: Path) -> None:
    ran = tune(
        tiny_model, "--goodput", "ttft:500", "--request-rate", 20, "--profile", tmp_path / "p.json", "--summary", "json"
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["slots"][0]["attainment"] is not None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["--goodput", "ttft:5"], "belong together"),
        (["--request-rate", 3], "belong together"),
        (["--budget", 0], "give 1 second or more"),
        (["--max-stall", -1], "give milliseconds"),
        (["--for", "none.jsonl", "--prompt-len", 3], "keep one"),
        (["--prompt-len", "x"], "--prompt-len x: give 128"),
        (["--max-stall", 0.0001], "takes longer than --max-stall"),
    ],
)
def test_mistakes_are_told(tiny_model: Path, cache: Path, arguments: list[object], message: str) -> None:
    ran = cbatch("tune", "--model", tiny_model, "--budget", 1, "-q", *arguments)
    assert ran.code == 2
    assert message in ran.err


def plan(*arguments: object) -> dict[str, Any]:
    ran = cbatch("plan", *arguments, "--summary", "json")
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def rows_of(path: Path, count: int = 40) -> Path:
    return write_rows(path, [{"prompt": f"word {i}"} for i in range(count)])


def test_a_plan_by_the_profile(tuned: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "rows.jsonl")
    found = plan(rows, "--model", tiny_model, "--max-tokens", 20, "--ignore-eos")
    assert found["settings"].startswith("profile of ")
    time = found["time"]
    assert (time["rows"], time["known_rows"], time["output_tokens"]) == (40, True, [20, 20])
    assert 0 < time["seconds"][0] < time["seconds"][1] < 10
    assert found["preview"]["memory"]["slots"] <= 64
    longer = plan(rows, "--model", tiny_model, "--max-tokens", 40, "--ignore-eos")
    assert longer["time"]["seconds"][0] > time["seconds"][0]
    assert not list(tmp_path.glob("*.cbatch"))


def test_a_plan_knows_what_it_doesnt_know(tuned: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "rows.jsonl")
    open_ended = plan(rows, "--model", tiny_model, "--max-tokens", 20)["time"]
    assert open_ended["output_tokens"] == [1, 20]
    assert open_ended["seconds"][1] > 2 * open_ended["seconds"][0]
    told = plan(rows, "--model", tiny_model, "--max-tokens", 20, "--output-len", 10)["time"]
    assert told["output_tokens"] == [10, 10]


def test_few_slots_bring_a_suggestion(tuned: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "rows.jsonl")
    found = plan(rows, "--model", tiny_model, "--max-tokens", 20, "--ignore-eos", "--max-num-seqs", 1)
    assert found["suggestions"][0]["option"].startswith("--max-num-seqs")
    assert found["suggestions"][0]["saved"] > 0.1
    ran = cbatch("plan", rows, "--model", tiny_model, "--max-tokens", 20, "--ignore-eos", "--max-num-seqs", 1)
    assert "would save" in ran.out
    assert "step costs measured on" in ran.out


def test_without_a_profile_that_fits_rows_are_tried(tuned: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    rows = rows_of(tmp_path / "rows.jsonl", 8)
    without = plan(rows, "--model", tiny_model, "--max-tokens", 4, "--no-auto", "-q")
    assert without["time"] is None
    assert without["preview"]["estimate"]["rows_finished"] == 8
    other = plan(rows, "--model", tiny_model, "--max-tokens", 4, "--kv", "unified", "--kv-type", "f32", "-q")
    assert "measured with other settings" in other["settings"]


def test_rows_that_cant_be_run_are_counted(tuned: dict[str, Any], tiny_model: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "rows.jsonl", [{"prompt": "x"}, {"prompt": ""}, {"prompt": "y"}])
    ran = cbatch("plan", rows, "--model", tiny_model, "--summary", "json")
    assert ran.code == 3
    assert len(json.loads(ran.out)["preview"]["faults"]) == 1
