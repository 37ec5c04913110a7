"""Replays and comparisons with the settings of a profile, on the tiny model."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import cbatch, run_json
from tests.e2e.test_replay import steady, write_trace
from tests.tune.test_profile import RECORD, stored

TUNED = {**RECORD["options"], "max_num_seqs": 40, "max_num_batched_tokens": 1024}
LINE = "profile of 2026-11-30: f16, flash attention off, 40 slots"


@pytest.fixture(autouse=True)
def profile(tmp_path: Path, tiny_model: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return stored(tiny_model, tmp_path / "cache" / "cbatch", options=TUNED)


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "t.parquet", steady(6, gap_ms=1), rate=1000)


def called(*arguments: object) -> dict[str, Any]:
    ran = cbatch(*arguments, "-q", "--summary", "json")
    assert ran.code == 0, ran.err
    return dict(json.loads(ran.out))


def kernels(directory: Path) -> tuple[str, str, str, int]:
    context = run_json(directory)["context"]
    return context["type_k"], context["flash_attn"], context["kv_mode"], context["threads"]


def test_a_replay_uses_the_profile_and_says_so(tiny_model: Path, trace: Path, profile: Path, tmp_path: Path) -> None:
    found = called("replay", trace, "-m", tiny_model, "-o", tmp_path / "o", "-t", 1)
    assert LINE in found["notes"]
    record = run_json(tmp_path / "o")
    assert record["auto"]["line"] == LINE
    assert record["auto"]["profile"] == str(profile)
    assert kernels(tmp_path / "o") == ("f16", "off", "split", 1)
    assert record["scheduler"]["max_num_seqs"] == 40
    assert record["scheduler"]["max_num_batched_tokens"] == 512, "steps don't get longer"


def test_what_is_given_stays(tiny_model: Path, trace: Path, tmp_path: Path) -> None:
    without = called("replay", trace, "-m", tiny_model, "-o", tmp_path / "a", "-t", 1, "--no-auto")
    assert "defaults: --no-auto" in without["notes"]
    assert kernels(tmp_path / "a") == ("bf16", "on", "split", 1)
    called("replay", trace, "-m", tiny_model, "-o", tmp_path / "b", "-t", 1, "--kv-type", "f32", "--max-num-seqs", 3)
    assert kernels(tmp_path / "b") == ("f32", "on", "split", 1)
    assert run_json(tmp_path / "b")["scheduler"]["max_num_seqs"] == 3


def test_the_rates_of_a_sweep_have_it_too(tiny_model: Path, trace: Path, tmp_path: Path) -> None:
    found = called("replay", trace, "-m", tiny_model, "-o", tmp_path / "o", "-t", 1, "--sweep-rate", "500,1000")
    assert found["notes"].count(LINE) == 1
    assert kernels(tmp_path / "o" / "rate-500") == kernels(tmp_path / "o" / "rate-1000") == ("f16", "off", "split", 1)


def test_policies_have_the_same_kernels_and_variants_their_own(tiny_model: Path, trace: Path, tmp_path: Path) -> None:
    variants = ("--variant", "own:kv_type=f32", "--variant", "few:max_num_seqs=2,max_num_batched_tokens=16")
    policies = ("--policies", "static,continuous+chunked")
    found = called(
        "compare", trace, "-m", tiny_model, "-o", tmp_path / "o", "-t", 1, "--repeat", 1, *policies, *variants
    )
    places = {name: tmp_path / "o" / name / "1" for name in found["variants"]}
    tuned = ("f16", "off", "split", 1)
    assert {name: kernels(place) for name, place in places.items()} == {
        "static": tuned,
        "continuous+chunked": tuned,
        "own": ("f32", "on", "split", 1),
        "few": tuned,
    }
    schedulers = {name: run_json(place)["scheduler"] for name, place in places.items()}
    assert {name: each["max_num_seqs"] for name, each in schedulers.items()} == {
        "static": 40,
        "continuous+chunked": 40,
        "own": 40,
        "few": 2,
    }
    assert schedulers["static"]["max_num_batched_tokens"] == 2048, "prompts are whole"
    assert schedulers["continuous+chunked"]["max_num_batched_tokens"] == 256
    assert f"static, continuous+chunked: {LINE}" in found["notes"]
    assert run_json(places["few"])["auto"]["line"] == "profile of 2026-11-30: f16, flash attention off"


def test_a_published_workload_is_played_with_it(tiny_model: Path, tmp_path: Path) -> None:
    found = called(
        "compare", "--preset", "anyscale", "--limit", 2, "--repeat", 1, "--scale-lengths", 0.02, "-t", 1, "--no-report",
        "-m", tiny_model, "-o", tmp_path / "o",
    )  # fmt: skip
    assert any(note.startswith("profile of 2026-11-30: f16, flash attention off") for note in found["notes"])
    assert all(kernels(path.parent) == ("f16", "off", "split", 1) for path in (tmp_path / "o").rglob("run.json"))
