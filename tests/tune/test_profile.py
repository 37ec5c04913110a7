"""Profiles: what they hold for, and that a damaged one is none."""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pytest

from cbatch.cli.simulate_profile import open_profile
from cbatch.config import ModelConfig
from cbatch.errors import OutputError
from cbatch.llama import machine
from cbatch.tune.profile import find_profile, load_profile, profile_key, profile_path, save_profile
from tests.sim.recording import COSTS

RECORD: dict[str, Any] = {
    "created": "2026-11-30T02:00:00+00:00",
    "options": {"max_num_seqs": 48, "kv": "split", "kv_type": "f16", "flash_attn": "off", "ubatch": 512},
    "context": {"kv_mode": "split", "ubatch": 512},
    "step_costs": COSTS.to_dict(),
    "error": {"steps": 50, "mean": 0.02, "p90": 0.05, "total": 0.01},
    "tried": [],
    "most_slots": 64,
}


def stored(model: Path, cache: Path, *, mask: Sequence[int] = (), **changes: Any) -> Path:
    path = profile_path(profile_key(ModelConfig(model), mask), cache)
    save_profile(path, {**RECORD, **changes})
    return path


def test_a_profile_is_found_again(tiny_model: Path, tmp_path: Path) -> None:
    assert find_profile(ModelConfig(tiny_model), cache_dir=tmp_path) is None
    path = stored(tiny_model, tmp_path)
    found = find_profile(ModelConfig(tiny_model), cache_dir=tmp_path)
    assert found is not None
    assert (found.path, found.date, found.costs) == (path, "2026-11-30", COSTS)
    assert found.options["max_num_seqs"] == 48
    assert found.options["threads"] is None
    assert found.latency_goal is None


def test_another_model_or_machine_has_another_one(
    tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stored(tiny_model, tmp_path)
    other = tmp_path / "other.gguf"
    other.write_bytes(tiny_model.read_bytes() + b"x")
    assert find_profile(ModelConfig(other), cache_dir=tmp_path) is None
    assert find_profile(ModelConfig(tiny_model, use_extra_bufts=False), cache_dir=tmp_path) is None
    assert find_profile(ModelConfig(tiny_model, gpu_layers=0), cache_dir=tmp_path) is not None or machine.gpu_devices()
    monkeypatch.setattr(machine, "allowed_cpus", lambda: (7,))
    assert find_profile(ModelConfig(tiny_model), cache_dir=tmp_path) is None


def test_cpus_that_are_asked_for_have_another_one(tiny_model: Path, tmp_path: Path) -> None:
    stored(tiny_model, tmp_path)
    assert find_profile(ModelConfig(tiny_model), (0,), tmp_path) is None
    path = stored(tiny_model, tmp_path, mask=(0,))
    found = find_profile(ModelConfig(tiny_model), (0,), tmp_path)
    assert found is not None
    assert found.path == path
    assert find_profile(ModelConfig(tiny_model), (0, 1), tmp_path) is None


@pytest.mark.parametrize(
    ("tuned_for", "goal"),
    [
        ({"goodput": None, "request_rate": None, "max_stall": None}, None),
        ({"goodput": ["ttft:500", "tpot:50"], "request_rate": 2.0}, "ttft:500, tpot:50 at 2 requests/s"),
        ({"max_stall": 50.0}, "steps of at most 50 ms"),
        (
            {"goodput": ["ttft:500"], "request_rate": 0.5, "max_stall": 50.0},
            "ttft:500 at 0.5 requests/s and steps of at most 50 ms",
        ),
    ],
)
def test_it_knows_which_latencies_it_was_tuned_for(
    tiny_model: Path, tmp_path: Path, tuned_for: dict[str, Any], goal: str | None
) -> None:
    found = load_profile(stored(tiny_model, tmp_path, tuned_for=tuned_for))
    assert found is not None
    assert found.latency_goal == goal


@pytest.mark.parametrize("tuned_for", [3, {"request_rate": "x", "goodput": []}, {"request_rate": 2, "goodput": None}])
def test_a_goal_that_is_damaged_makes_it_none(tiny_model: Path, tmp_path: Path, tuned_for: object) -> None:
    assert load_profile(stored(tiny_model, tmp_path, tuned_for=tuned_for)) is None


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "{}", '{"version": 0}', '{"version": 1, "created": "x", "options": 3}', "null"]
)
def test_what_is_damaged_is_no_profile(tmp_path: Path, text: str) -> None:
    path = tmp_path / "profile.json"
    path.write_text(text, "utf-8")
    assert load_profile(path) is None


def test_simulate_reads_it(tiny_model: Path, tmp_path: Path) -> None:
    found = open_profile(stored(tiny_model, tmp_path))
    assert found.costs == COSTS
    assert found.error is not None
    assert found.options["max_num_seqs"] == 48
    assert (found.kv_mode, found.ubatch) == ("split", 512)


def test_a_place_that_cant_be_written_is_named(tmp_path: Path) -> None:
    blocked = tmp_path / "file"
    blocked.write_text("", "utf-8")
    with pytest.raises(OutputError, match=r"profile\.json can't be written"):
        save_profile(blocked / "profile.json", RECORD)


def test_it_is_json_without_surprises(tiny_model: Path, tmp_path: Path) -> None:
    record = json.loads(stored(tiny_model, tmp_path).read_text("utf-8"))
    assert record["version"] == 1
    assert [path.name for path in (tmp_path / "profiles").iterdir()] == [stored(tiny_model, tmp_path).name]
