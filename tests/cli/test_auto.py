"""Which settings a job takes from a profile, and that it keeps them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import typer
from typer.testing import CliRunner

from cbatch.cli.auto import NO_PROFILE, Auto, auto_options, settings_of
from cbatch.cli.given import given_options
from cbatch.cli.replay_options import ReplayOptions
from cbatch.cli.run_options import RunOptions
from cbatch.config import ModelConfig
from cbatch.sim.measured import Deviation
from cbatch.tune.profile import Profile
from tests.cli.test_dry_run import run_options
from tests.sim.recording import COSTS
from tests.tune.test_profile import RECORD, stored

TUNED = {"max_num_seqs": 48, "kv": "split", "kv_type": "f16", "flash_attn": "off", "ubatch": 1024, "threads": 3}


def profile(**options: Any) -> Profile:
    return Profile(Path("p.json"), "2026-11-30T00:00:00", {**TUNED, **options}, COSTS, Deviation(9, 0, 0, 0), (), 64)


@pytest.fixture
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path))
    return tmp_path / "cbatch"


def options(**given: Any) -> RunOptions:
    return run_options(**{"threads": None, "max_num_seqs": 32, **given})


def replay_options(**given: Any) -> ReplayOptions:
    return ReplayOptions(**{**dict.fromkeys(ReplayOptions.__dataclass_fields__), **given})


def test_what_wasnt_given_is_taken() -> None:
    assert settings_of(profile(), options(), set()) == {name: v for name, v in TUNED.items() if name != "kv"}


def test_what_was_given_stays() -> None:
    assert settings_of(profile(), options(), {"max_num_seqs", "ubatch"}).keys() == {"kv_type", "flash_attn", "threads"}


@pytest.mark.parametrize("name", ["kv", "kv_type", "flash_attn"])
def test_kinds_of_kv_are_chosen_together(name: str) -> None:
    taken = settings_of(profile(kv="unified"), options(), {name})
    assert not taken.keys() & {"kv", "kv_type", "flash_attn"}


def tuned_for(goal: str | None, **options: Any) -> Profile:
    return replace(profile(max_num_seqs=4, max_num_batched_tokens=50, **options), latency_goal=goal)


def test_a_run_doesnt_take_slots_that_were_chosen_for_latencies() -> None:
    fast, short = tuned_for(None), tuned_for("ttft:500 at 2 requests/s")
    assert settings_of(fast, options(), set()).keys() - settings_of(short, options(), set()).keys() == {
        "max_num_seqs",
        "max_num_batched_tokens",
    }
    replayed = settings_of(short, replay_options(max_num_seqs=32, max_num_batched_tokens=512), set())
    assert (replayed["max_num_seqs"], replayed["max_num_batched_tokens"]) == (4, 50)


def test_the_line_says_which_latencies_a_profile_was_tuned_for(tiny_model: Path, cache: Path) -> None:
    stored(tiny_model, cache, tuned_for={"goodput": ["ttft:500"], "request_rate": 2.0})
    found, auto = auto_options(options(), ModelConfig(tiny_model), set())
    assert found.max_num_seqs == 32
    assert auto.line == "profile of 2026-11-30, tuned for ttft:500 at 2 requests/s: f16, flash attention off"


def test_slots_keep_to_a_given_token_budget() -> None:
    assert settings_of(profile(), options(max_num_batched_tokens=40), {"max_num_batched_tokens"})["max_num_seqs"] == 40
    tight = profile(max_num_batched_tokens=16, max_num_seqs=8)
    assert "max_num_batched_tokens" not in settings_of(tight, options(), {"max_num_seqs"})
    assert settings_of(tight, options(), set())["max_num_batched_tokens"] == 16


def test_requests_that_come_one_by_one_dont_wait_longer_for_a_profile() -> None:
    """A profile may bound the tokens of a step by more than a replay does by itself."""
    ours = replay_options(max_num_seqs=32, max_num_batched_tokens=512)
    assert "max_num_batched_tokens" not in settings_of(profile(max_num_batched_tokens=1024), ours, set())
    assert settings_of(profile(max_num_batched_tokens=200), ours, set())["max_num_batched_tokens"] == 200
    assert settings_of(profile(max_num_seqs=600), ours, set())["max_num_seqs"] == 512


def test_contexts_that_shift_choose_their_own_type() -> None:
    assert "kv_type" not in settings_of(profile(), options(on_overflow="shift"), set())


def test_without_a_profile_the_defaults_hold(tiny_model: Path, cache: Path) -> None:
    ours = options()
    found, auto = auto_options(ours, ModelConfig(tiny_model), set())
    assert found == ours
    assert auto.line == "no profile: defaults; cbatch tune measures this machine"


def test_a_profile_is_used_and_named(tiny_model: Path, cache: Path) -> None:
    path = stored(tiny_model, cache)
    found, auto = auto_options(options(), ModelConfig(tiny_model), set())
    assert (found.kv_type, found.flash_attn, found.max_num_seqs) == ("f16", "off", 48)
    assert auto.line == "profile of 2026-11-30: f16, flash attention off, 48 slots"
    assert auto.to_dict() == {
        "line": auto.line,
        "settings": {"kv_type": "f16", "flash_attn": "off", "max_num_seqs": 48},
        "profile": str(path),
    }
    assert auto_options(options(), ModelConfig(tiny_model), set(), enabled=False)[0] == options()


def test_a_job_goes_on_as_it_began(tiny_model: Path, cache: Path) -> None:
    _, first = auto_options(options(), ModelConfig(tiny_model), set())
    stored(tiny_model, cache)
    again, auto = auto_options(options(), ModelConfig(tiny_model), set(), earlier={"auto": first.to_dict()})
    assert again == options()
    assert auto.line.startswith(first.line)


def test_settings_of_the_first_start_are_taken_again(tiny_model: Path, cache: Path) -> None:
    path = stored(tiny_model, cache)
    _, first = auto_options(options(), ModelConfig(tiny_model), set())
    path.unlink()
    again, second = auto_options(options(), ModelConfig(tiny_model), set(), earlier={"auto": first.to_dict()})
    assert (again.kv_type, again.max_num_seqs) == ("f16", 48)
    fewer, third = auto_options(
        options(max_num_seqs=4), ModelConfig(tiny_model), {"max_num_seqs"}, earlier={"auto": second.to_dict()}
    )
    assert (fewer.kv_type, fewer.max_num_seqs) == ("f16", 4)
    assert third.line == f"{second.line}, of which now: f16, flash attention off"
    _, fourth = auto_options(
        options(max_num_seqs=4), ModelConfig(tiny_model), {"max_num_seqs"}, earlier={"auto": third.to_dict()}
    )
    assert fourth.line == third.line, "it isn't said twice"


FIRST = "profile of 2026-11-30: as it was (as the run that is resumed)"


def resumed(tmp_path: Path, settings: dict[str, Any], **given: Any) -> tuple[RunOptions, Auto]:
    """A run of such settings that is gone on with, with these options."""
    told = {"line": FIRST, "settings": settings, "profile": None}
    earlier = {"auto": told, "options": {"cpu_mask": "none"}}
    return auto_options(options(**given), ModelConfig(tmp_path / "any.gguf"), given.keys(), earlier=earlier)


@pytest.mark.parametrize("kv", ["split", "unified"])
def test_the_type_of_kv_stays_whatever_is_given_for_the_rest(tmp_path: Path, kv: str) -> None:
    """It changes outputs, and nobody who resumes has asked for that."""
    found, auto = resumed(tmp_path, {"kv": "unified", "kv_type": "f16", "flash_attn": "off"}, kv=kv)
    assert (found.kv, found.kv_type, found.flash_attn) == (kv, "f16", "off")
    assert auto.line == f"{FIRST}, of which now: f16, flash attention off"


def test_what_doesnt_go_with_what_is_given_now_isnt_taken_again(tmp_path: Path) -> None:
    found, _ = resumed(tmp_path, {"max_num_seqs": 16, "max_num_batched_tokens": 40}, max_num_seqs=64)
    assert (found.max_num_seqs, found.max_num_batched_tokens) == (64, 2048)
    found, auto = resumed(tmp_path, {"max_num_seqs": 48}, max_num_batched_tokens=40)
    assert found.max_num_seqs == 40
    assert auto.line.endswith("of which now: 40 slots")
    found, auto = resumed(tmp_path, {"max_num_seqs": 48}, max_num_seqs=8)
    assert auto.line.endswith("of which now: nothing")


def test_threads_are_taken_again_on_the_same_cpus(tmp_path: Path) -> None:
    assert resumed(tmp_path, {"threads": 3})[0].threads == 3
    assert resumed(tmp_path, {"threads": 3}, cpu_mask="none")[0].threads == 3
    assert resumed(tmp_path, {"threads": 3}, cpu_mask="0,1")[0].threads is None


def test_cpus_that_are_given_have_their_own_profile(tiny_model: Path, cache: Path) -> None:
    stored(tiny_model, cache)
    _, auto = auto_options(options(cpu_mask="0"), ModelConfig(tiny_model), {"cpu_mask"})
    assert auto.line == NO_PROFILE
    path = stored(tiny_model, cache, mask=(0,), options={**RECORD["options"], "threads": 1})
    found, auto = auto_options(options(cpu_mask="0"), ModelConfig(tiny_model), {"cpu_mask"})
    assert auto.profile == str(path)
    assert found.threads == 1


@pytest.mark.parametrize("record", [{}, {"auto": None}, {"auto": {"settings": None}}])
def test_a_run_that_says_nothing_had_the_defaults(tiny_model: Path, cache: Path, record: dict[str, Any]) -> None:
    stored(tiny_model, cache)
    assert auto_options(options(), ModelConfig(tiny_model), set(), earlier=record)[0] == options()


def test_given_options_are_told_from_defaults() -> None:
    app, seen = typer.Typer(), []

    @app.command()
    def command(context: typer.Context, slots: int = 32, kv: str = "auto") -> None:
        seen.append(given_options(context))

    assert CliRunner().invoke(app, []).exit_code == 0
    assert CliRunner().invoke(app, ["--slots", "32"]).exit_code == 0
    assert seen == [(), ("slots",)]
