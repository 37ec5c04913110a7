"""`cbatch compare --preset` as a user runs it, on the tiny model."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import cbatch, command, run_json, table
from tests.e2e.test_compare import EXACT

FEW = ("--limit", 5, "--repeat", 1, "-q", "--no-report")


def reproduced(model: Path, output: Path, preset: str, *arguments: object) -> dict[str, Any]:
    """A preset that goes well, as JSON."""
    ran = cbatch(
        "compare", "--preset", preset, "-m", model, "-o", output, *FEW, *EXACT, *arguments, "--summary", "json"
    )
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    saved = json.loads((output / "preset.json").read_text("utf-8"))
    assert saved == {name: value for name, value in found.items() if name != "paths"}
    return found


def told(found: dict[str, Any], metric: str) -> dict[str, dict[str, Any]]:
    """Findings of a metric, by point."""
    return {finding["point"]: finding for finding in found["findings"] if finding["metric"] == metric}


def test_anyscale(tiny_model: Path, tmp_path: Path) -> None:
    found = reproduced(tiny_model, tmp_path / "out", "anyscale")
    points = told(found, "output_throughput")
    assert list(points) == ["cap-32", "cap-128", "cap-512", "cap-1536"]
    assert points["cap-1536"]["published"] == 8
    assert all(point["ratio"] > 0 and point["medians"]["static"] > 0 for point in points.values())
    assert (found["scale"], found["requests"], found["capacity_rps"]) == (0.25, 5, None)
    assert (found["outputs"], found["same_outputs"]) == (20, 20)
    directory = tmp_path / "out" / "cap-1536"
    static, continuous = (run_json(directory / name / "1") for name in ("static", "continuous"))
    assert (static["scheduler"]["batching"], continuous["scheduler"]["batching"]) == ("static", "continuous")
    assert static["scheduler"]["max_num_seqs"] == 4
    assert continuous["scheduler"]["max_num_seqs"] == 16
    assert {row["prompt_tokens"] for row in table(tmp_path / "out" / "cap-1536.parquet")} == {128}
    assert json.loads((directory / "compare.json").read_text("utf-8"))["baseline"] == "static"
    ran = cbatch("report", tmp_path / "out", "-o", tmp_path / "report.html")
    assert ran.code == 0, ran.err
    page = (tmp_path / "report.html").read_text("utf-8")
    assert [page.index(f"cap-{cap}") for cap in (32, 128, 512, 1536)]  # index raises for what isn't there


@pytest.mark.parametrize("preset", ["orca", "seed"])
def test_loads_are_shares_of_the_measured_capacity(tiny_model: Path, tmp_path: Path, preset: str) -> None:
    found = reproduced(tiny_model, tmp_path / "out", preset)
    assert found["capacity_rps"] > 0
    loads = {"orca": (0.25, 0.5, 0.9), "seed": (0.5, 0.75, 0.95)}[preset]
    for load in loads:
        record = run_json(tmp_path / "out" / f"load-{load}" / "continuous" / "1")
        assert record["replay"]["requested_rate"] == pytest.approx(load * found["capacity_rps"])
    published = {finding["metric"]: finding["published"] for finding in found["findings"]}
    assert (
        published
        == {
            "orca": {"normalized_latency_p50": None, "rate_at_latency": 36.9},
            "seed": {"ttft_mean": 0.2, "output_throughput": 3.8},
        }[preset]
    )


def test_a_given_capacity_isnt_measured_and_the_same_command_gives_the_same_traces(
    tiny_model: Path, tmp_path: Path
) -> None:
    for name in ("a", "b"):
        found = reproduced(tiny_model, tmp_path / name, "seed", "--request-rate", 200, "--scale-lengths", 0.05)
        assert (found["capacity_rps"], found["scale"]) == (200, 0.05)
        assert not (tmp_path / name / "capacity").exists()
    assert (tmp_path / "a" / "load-0.5.parquet").read_bytes() == (tmp_path / "b" / "load-0.5.parquet").read_bytes()


def test_the_report_is_of_its_points(tiny_model: Path, tmp_path: Path) -> None:
    found = reproduced(tiny_model, tmp_path / "out", "seed", "--request-rate", 200, "--report")
    page = tmp_path / "out" / "report.html"
    assert found["paths"]["report"] == str(page)
    text = page.read_text("utf-8")
    places = [text.index(f"Comparison: load-{load}") for load in (0.5, 0.75, 0.95)]
    assert places == sorted(places)
    assert found["notes"] == json.loads((tmp_path / "out" / "preset.json").read_text("utf-8"))["notes"]


def test_a_report_that_cant_be_made_costs_nothing_else(tiny_model: Path, tmp_path: Path) -> None:
    (tmp_path / "out" / "report.html").mkdir(parents=True)
    call = ("--preset", "anyscale", "-m", tiny_model, "-o", tmp_path / "out", *FEW[:-1], "--scale-lengths", 0.05)
    ran = cbatch("compare", *call, "--force")
    assert ran.code == 0, ran.err
    assert "there is no report:" in ran.out
    assert (tmp_path / "out" / "preset.json").exists()


def test_the_table_fits_and_force_replaces_it(tiny_model: Path, tmp_path: Path) -> None:
    call = ("compare", "--preset", "anyscale", "-m", tiny_model, "-o", tmp_path / "out", *FEW)
    first = cbatch(*call)
    assert first.code == 0, first.err
    assert "published" in first.out
    assert "Why ratios may differ" in first.out
    tables = first.out.split("\nNotes\n")[0]
    assert all(len(line) <= 80 or str(tmp_path) in line for line in tables.splitlines())
    refused = cbatch(*call)
    assert refused.code == 2
    assert "--force" in refused.err
    assert cbatch(*call, "--force").code == 0


def test_an_interrupted_preset_tells_the_repetitions_of_all_points(tiny_model: Path, tmp_path: Path) -> None:
    process = subprocess.Popen(
        command(
            *("compare", "--preset", "anyscale", "-m", tiny_model, "-o", tmp_path / "out", "--limit", 5),
            *("--repeat", 200, "--scale-lengths", 0.05, "--no-report"),
        ),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "out" / "cap-32" / "static" / "2" / "run.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "of 200 repetitions are told" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ([], "there is nothing to compare: give a trace, a file of prompts, or --preset anyscale|orca|seed"),
        (["trace.parquet", "--preset", "seed"], "--preset seed makes its own requests: leave it out, or trace.parquet"),
        (["--preset", "vllm"], "--preset is 'vllm': give one of anyscale, orca, seed"),
        (["--preset", "orca", "--ladder"], "leave --ladder out"),
        (["--preset", "orca", "--policies", "static,padded"], "leave --policies out"),
        (["--preset", "orca", "--speedup", "2"], "leave --speedup out"),
        (["--preset", "orca", "--request-rate", "inf"], "give a number"),
        (["--preset", "anyscale", "--request-rate", "2"], "leave --request-rate out"),
        (["--preset", "anyscale", "--limit", "0"], "limit is 0"),
    ],
)
def test_mistakes_in_the_call(tiny_model: Path, tmp_path: Path, arguments: list[object], message: str) -> None:
    ran = cbatch("compare", *arguments, "-m", tiny_model, "-o", tmp_path / "out")
    assert ran.code == 2, ran.err
    assert message in ran.err
    assert not (tmp_path / "out").exists()
