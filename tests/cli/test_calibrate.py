"""Calibrations of commands: when they are made, what takes them, and that they make no job fail."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from typer.testing import CliRunner

from cbatch.cli import calibrate as module
from cbatch.cli.app import app
from cbatch.cli.auto import NO_PROFILE, Auto, auto_options
from cbatch.cli.calibrate import Ahead, Calibrator, run_ahead
from cbatch.cli.control import Control
from cbatch.cli.job import run_job
from cbatch.cli.run_options import RunOptions
from cbatch.clock import WallClock
from cbatch.config import ModelConfig
from cbatch.errors import EngineError
from cbatch.inputs import read_rows
from cbatch.llama import machine
from cbatch.llama.model import Model
from cbatch.sampling import SamplingParams
from cbatch.supervise import Link
from cbatch.tune.quick import Fastest
from cbatch.tune.setting import Setting, built_in
from cbatch.types import Job, Request, RowRef
from tests.cli.test_dry_run import run_options
from tests.e2e.command import run_json, table, write_rows
from tests.e2e.test_replay import steady, write_trace
from tests.tune.test_profile import stored

OPEN = Auto(NO_PROFILE, {}, open=True)


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("XDG_CACHE_HOME", str(tmp_path / "cache"))
    return tmp_path / "cache" / "cbatch" / "calibrations"


@pytest.fixture
def long_jobs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Every job counts as a long one."""
    monkeypatch.setattr(module, "LEAST_JOB_S", 0.0)
    monkeypatch.setattr(module, "BUDGET_S", 3.0)


def window(count: int = 40, prompt: int = 20, **sampling: Any) -> list[Job]:
    params = SamplingParams(**{"max_tokens": 12, "ignore_eos": True, **sampling})
    tokens = np.arange(prompt, dtype=np.int32)
    return [(RowRef(n, str(n), f"t:{n}", 0), Request(str(n), tokens, params)) for n in range(1, count + 1)]


class Said:
    """A calibrator, and what it told the user."""

    def __init__(self, model: Model, options: RunOptions | None = None) -> None:
        self.options = run_options(max_num_seqs=4, threads=None) if options is None else options
        self.lines: list[str] = []
        self.calibrator = Calibrator(self.options, model, WallClock(), say=self.lines.append)

    def settle(self, auto: Auto = OPEN, jobs: list[Job] | None = None, rows: int = 40) -> tuple[RunOptions, Auto]:
        ahead = Ahead(window() if jobs is None else jobs, rows)
        return self.calibrator.settle(self.options, auto, ahead, Control())


def measured(setting: Setting, monkeypatch: pytest.MonkeyPatch) -> list[Setting]:
    """From now on this setting is the fastest; who asks is noted."""
    asked: list[Setting] = []

    def calibrate(_: object, default: Setting, *__: object, **___: object) -> Fastest:
        asked.append(default)
        return Fastest(setting, 1.2, 6.4)

    monkeypatch.setattr(module, "calibrate", calibrate)
    return asked


def test_a_long_job_is_calibrated_for(tiny: Model, cache: Path, long_jobs: None) -> None:
    said = Said(tiny)
    options, auto = said.settle()
    assert auto.line.startswith("calibrated in ")
    assert said.lines == ["no profile: calibrating for up to 3 s"]
    assert auto.profile == str(next(cache.iterdir()))
    assert options == replace(said.options, **auto.settings)
    assert auto.settings.keys() <= {"kv_type", "flash_attn"}


def test_what_was_found_is_taken_by_the_next_job_like_it(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measured(replace(built_in(tiny), kv_type="f16", flash_attn="off"), monkeypatch)
    options, auto = Said(tiny).settle()
    assert (options.kv_type, options.flash_attn) == ("f16", "off")
    assert auto.line == "calibrated in 6 s: f16, flash attention off"
    again, later = Said(tiny).settle()
    assert (again.kv_type, again.flash_attn) == ("f16", "off")
    assert later.line.startswith("calibrated on 20")
    assert len(asked) == 1
    Said(tiny).settle(jobs=window(prompt=200))
    assert len(asked) == 2, "another job is measured again"


@pytest.mark.parametrize(
    ("first", "then", "times"),
    [
        ({"max_num_seqs": 2}, {"max_num_seqs": 32}, 2),
        ({"max_num_seqs": 32}, {"max_num_seqs": 64}, 1),  # trials have 32 at most
        ({"max_num_seqs": 64}, {"max_num_seqs": 200}, 1),
        ({"cpu_mask": "none"}, {"cpu_mask": "auto"}, 1),
        ({"cpu_mask": "none"}, {"cpu_mask": "{cpu}"}, 2),
    ],
)
def test_other_slots_and_cpus_are_measured_again(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, first: dict[str, Any], then: dict[str, Any], times: int
) -> None:
    asked = measured(built_in(tiny), monkeypatch)
    then = {name: v.format(cpu=machine.allowed_cpus()[0]) if isinstance(v, str) else v for name, v in then.items()}
    for given in (first, then):
        Said(tiny, run_options(threads=None, **given)).settle(rows=400)
    assert len(asked) == times


def test_few_rows_run_in_few_slots(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measured(built_in(tiny), monkeypatch)
    for rows in (3, 4, 400):
        Said(tiny, run_options(threads=None, max_num_seqs=32)).settle(rows=rows)
    assert len(asked) == 2


def test_one_command_calibrates_once(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measured(built_in(tiny), monkeypatch)
    said = Said(tiny)
    _, auto = said.settle()
    assert auto.line == "calibrated in 6 s: the defaults"
    said.settle(jobs=window(prompt=200))
    assert len(asked) == 1


def test_settings_that_were_given_are_measured_with(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measured(built_in(tiny), monkeypatch)
    Said(tiny, run_options(ubatch=128, threads=1)).settle()
    assert (asked[0].ubatch, asked[0].threads) == (128, 1)


def test_short_jobs_and_settled_ones_arent(tiny: Model, cache: Path) -> None:
    said = Said(tiny)
    assert said.settle() == (said.options, Auto(NO_PROFILE, {}))
    settled = Auto("profile of 2026-11-30: f16", {"kv_type": "f16"}, "p.json")
    assert said.settle(settled, rows=10**9) == (said.options, settled)
    assert said.settle(jobs=[], rows=10**9) == (said.options, Auto(NO_PROFILE, {}))
    assert not cache.exists()


@pytest.mark.parametrize("error", [EngineError("the library failed"), OSError("gone")])
def test_a_calibration_that_fails_costs_nothing_else(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    def fail(*_: object, **__: object) -> Fastest:
        raise error

    monkeypatch.setattr(module, "calibrate", fail)
    said = Said(tiny)
    options, auto = said.settle()
    assert options == said.options
    assert auto.line == f"no profile and no calibration ({error}): defaults; cbatch tune measures this machine"


def test_a_cache_that_cant_be_written_is_told(tiny: Model, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(built_in(tiny), monkeypatch)
    cache.parent.mkdir(parents=True)
    cache.write_text("", "utf-8")
    said = Said(tiny)
    _, auto = said.settle()
    assert auto.profile is None
    assert "the calibration can't be kept" in said.lines[0]


@pytest.mark.parametrize("given", [{"kv": "split"}, {"kv_type": "f16"}, {"flash_attn": "off"}])
def test_kernels_that_were_given_arent_open(tiny_model: Path, given: dict[str, Any]) -> None:
    assert not auto_options(run_options(**given), ModelConfig(tiny_model), given.keys())[1].open
    assert auto_options(run_options(), ModelConfig(tiny_model), {"ubatch"})[1].open
    assert not auto_options(run_options(on_overflow="shift"), ModelConfig(tiny_model), set())[1].open
    assert not auto_options(run_options(), ModelConfig(tiny_model), set(), enabled=False)[1].open


def test_rows_of_a_run_are_counted_ahead(tmp_path: Path) -> None:
    path = write_rows(tmp_path / "rows.jsonl", [{"prompt": "x" * 20} for _ in range(400)])
    options = run_options(inputs=[str(path)])
    rows = read_rows(options.inputs, defaults=options.sampling(), clock=WallClock())
    jobs: list[Job] = [(RowRef(n, str(n), f"{path}:{n}", 0), job[1]) for n, job in enumerate(window(100), 1)]  # type: ignore[index]
    assert run_ahead(options, rows, jobs, all_read=True).rows == 100
    assert run_ahead(options, rows, jobs, all_read=False).rows == 400
    piped = replace(options, inputs=["-"])
    assert run_ahead(piped, rows, jobs, all_read=False).rows == 100


class Jobs:
    """Runs in this process, on the tiny model."""

    def __init__(self, directory: Path, model: Path) -> None:
        self._directory = directory
        self._model = model
        self._rows = write_rows(directory / "rows.jsonl", [{"prompt": f"word {n}"} for n in range(8)])

    def run(self, name: str, *, attempt: int = 0, **more: Any) -> dict[str, Any]:
        """run.json."""
        output = self._directory / name
        options = run_options(
            inputs=[str(self._rows)],
            model=str(self._model),
            output=output,
            order="input",
            supervise=False,
            stall_timeout=0.0,
            max_num_seqs=4,
            threads=1,
            quiet=True,
            **{"auto": True, "given": ("threads",), **more},
        )
        link = Link.alone()
        link.attempt = attempt
        assert run_job(options, link) == 0
        return run_json(output)

    def break_off(self, name: str) -> None:
        """As if it had been stopped before its end."""
        path = self._directory / name / "run.json"
        path.write_text(path.read_text("utf-8").replace('"status": "complete"', '"status": "stopped"'), "utf-8")


@pytest.fixture
def jobs(tmp_path: Path, tiny_model: Path) -> Jobs:
    return Jobs(tmp_path, tiny_model)


def test_a_run_tells_of_its_calibration(jobs: Jobs, long_jobs: None, cache: Path) -> None:
    record = jobs.run("a")
    auto = record["auto"]
    assert auto["line"].startswith("calibrated in ")
    assert auto["line"] in record["notes"]
    assert auto["settings"].items() <= record["options"].items()
    again = jobs.run("b")["auto"]
    assert again["line"].startswith("calibrated on ")
    assert again["settings"] == auto["settings"]
    assert os.listdir(cache)


def test_a_run_without_auto_or_after_a_death_isnt_calibrated_for(jobs: Jobs, long_jobs: None) -> None:
    assert jobs.run("a", auto=False)["auto"]["line"] == "defaults: --no-auto"
    assert jobs.run("b", attempt=1)["auto"]["line"] == NO_PROFILE


def test_a_profile_overrides_a_calibration(
    jobs: Jobs, tiny_model: Path, tmp_path: Path, long_jobs: None, cache: Path
) -> None:
    jobs.run("a")
    stored(tiny_model, cache.parent)
    assert jobs.run("b")["auto"]["line"].startswith("profile of 2026-11-30: f16")


def test_a_job_that_is_resumed_keeps_what_it_had(jobs: Jobs, long_jobs: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "LEAST_JOB_S", 1e9)
    jobs.run("a", limit=4)
    monkeypatch.setattr(module, "LEAST_JOB_S", 0.0)
    jobs.break_off("a")
    again = jobs.run("a", limit=4)["auto"]
    assert again["line"] == f"{NO_PROFILE} (as the run that is resumed)"
    assert not again["settings"]


def test_a_job_that_is_resumed_keeps_its_type_of_kv(jobs: Jobs, monkeypatch: pytest.MonkeyPatch) -> None:
    measured(Setting("f16", "off"), monkeypatch)
    jobs.run("a", limit=4)
    jobs.break_off("a")
    again = jobs.run("a", limit=4, kv="unified", given=("threads", "kv"))
    assert (again["context"]["kv_mode"], again["context"]["type_k"]) == ("unified", "f16")
    assert again["context"]["flash_attn"] == "off"


def called(*arguments: object) -> None:
    """A command in this process."""
    done = CliRunner().invoke(app, [*map(str, arguments), "-q", "-t", "1"])
    assert done.exit_code == 0, done.output


def test_a_replay_is_calibrated_for_before_its_time_starts(
    tiny_model: Path, tmp_path: Path, long_jobs: None, cache: Path
) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(6, gap_ms=1))
    called("replay", trace, "-m", tiny_model, "-o", tmp_path / "a")
    record = run_json(tmp_path / "a")
    assert record["auto"]["line"].startswith("calibrated in ")
    assert record["auto"]["profile"] == str(next(cache.iterdir()))
    assert max(row["e2e_ns"] for row in table(tmp_path / "a" / "requests.parquet")) < 5e8
    called("replay", trace, "-m", tiny_model, "-o", tmp_path / "b", "--no-auto")
    assert run_json(tmp_path / "b")["auto"]["line"] == "defaults: --no-auto"


def test_a_comparison_is_calibrated_for_once(tiny_model: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    asked = measured(Setting("f16", "off"), monkeypatch)
    trace = write_trace(tmp_path / "t.parquet", steady(6, gap_ms=1))
    variants = ("--variant", "own:kv_type=f32", "--repeat", 2, "--no-report")
    called("compare", trace, "-m", tiny_model, "-o", tmp_path / "o", *variants)
    assert len(asked) == 1
    types = {path.parent.parent.name: run_json(path.parent)["context"]["type_k"] for path in tmp_path.rglob("run.json")}
    assert types == {"static": "f16", "continuous": "f16", "own": "f32"}
