"""`cbatch compare` as a user runs it, on the tiny model."""

from __future__ import annotations

import json
import signal
import subprocess
import time
from pathlib import Path
from typing import Any

import pytest

from cbatch.traces.trace import TraceRequest
from tests.e2e.command import cbatch, command, run_json, table, write_rows
from tests.e2e.test_replay import steady, write_trace

EXACT = ("--kv-type", "f32", "--flash-attn", "off", "--threads", 1)
"""With exact arithmetic outputs don't depend on the company."""


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.parquet", steady(24, gap_ms=2), rate=500)


def compare(model: Path, *arguments: object) -> dict[str, Any]:
    """A comparison that goes well, as JSON."""
    ran = cbatch("compare", *arguments, "-m", model, "-q", "--summary", "json", "--no-report", *EXACT)
    assert ran.code == 0, ran.err
    found = json.loads(ran.out)
    assert isinstance(found, dict)
    return found


def rows(found: dict[str, Any], variant: str) -> dict[str, dict[str, Any]]:
    return {row["metric"]: row for row in found["metrics"] if row["variant"] == variant}


def test_static_against_continuous(tiny_model: Path, tmp_path: Path) -> None:
    uneven = [TraceRequest(0, prompt_tokens=9, output_tokens=1 + 8 * (n % 4)) for n in range(24)]
    trace = write_trace(tmp_path / "trace.parquet", uneven)
    found = compare(tiny_model, trace, "--max-num-seqs", 4, "--goodput", "ttft:1000")
    assert found["variants"] == ["static", "continuous"]
    assert found["baseline"] == "static"
    assert found["repeats"] == 3
    static, continuous = rows(found, "static"), rows(found, "continuous")
    assert continuous["slot_utilisation"]["median"] > static["slot_utilisation"]["median"]
    assert continuous["ttft_mean"]["ratio"] > 0
    assert continuous["ttft_mean"]["low"] <= continuous["ttft_mean"]["ratio"] <= continuous["ttft_mean"]["high"]
    directory = trace.with_name("trace.parquet.compare")
    for variant in ("static", "continuous"):
        for turn in (1, 2, 3):
            assert len(table(directory / variant / str(turn) / "requests.parquet")) == 24
    assert run_json(directory / "static" / "1")["scheduler"]["batching"] == "static"
    (audit,) = found["audit"]
    assert (audit["variant"], audit["requests"], audit["same"]) == ("continuous", 24, 24)
    saved = json.loads((directory / "compare.json").read_text("utf-8"))
    assert saved["metrics"] == found["metrics"]


def test_groups_of_static_are_disjoint(tiny_model: Path, trace: Path) -> None:
    compare(tiny_model, trace, "--max-num-seqs", 4, "--repeat", 1)
    requests = table(trace.with_name("trace.parquet.compare") / "static" / "1" / "requests.parquet")
    groups: dict[int, list[dict[str, Any]]] = {}
    for row in requests:
        groups.setdefault(row["admitted_ns"], []).append(row)
    end = 0
    for begin, group in sorted(groups.items()):
        assert len(group) <= 4
        assert begin >= end
        end = max(row["finished_ns"] for row in group)


def test_padded_batches_compute_idle_slots_and_give_the_same_outputs(tiny_model: Path, tmp_path: Path) -> None:
    uneven = [TraceRequest(0, prompt_tokens=9, output_tokens=1 + 7 * (n % 3)) for n in range(8)]
    trace = write_trace(tmp_path / "t.parquet", uneven)
    found = compare(tiny_model, trace, "--policies", "static,padded", "--max-num-seqs", 4, "--repeat", 1)
    assert found["audit"][0]["same"] == 8
    steps = {name: table(tmp_path / "t.parquet.compare" / name / "1" / "steps.parquet") for name in found["variants"]}
    assert sum(step["padding_seqs"] for step in steps["static"]) == 0
    assert sum(step["padding_seqs"] for step in steps["padded"]) > 0


def test_the_ladder_and_a_variant_of_ones_own(tiny_model: Path, trace: Path) -> None:
    own = ("--variant", "few:max_num_seqs=2,kv=unified")
    ran = cbatch("compare", trace, "-m", tiny_model, "-q", "--ladder", *own, "--repeat", 1, *EXACT)
    assert ran.code == 0, ran.err
    for name in ("sequential", "static", "continuous", "continuous+chunked", "few"):
        assert name in ran.out
    tables, _ = ran.out.split("Notes\n")
    assert all(len(line) <= 80 for line in tables.splitlines())
    directory = trace.with_name("trace.parquet.compare")
    assert "few" in (directory / "report.html").read_text("utf-8")
    record = run_json(directory / "few" / "1")
    assert record["context"]["kv_mode"] == "unified"
    assert record["context"]["max_num_seqs"] == 2


def test_the_same_command_gives_the_same_outputs(tiny_model: Path, trace: Path) -> None:
    """Within a command, each repetition's; and again with another command."""
    texts = []
    for name in ("a", "b"):
        found = compare(tiny_model, trace, "-o", trace.with_name(name), "--repeat", 2)
        assert all(again["same"] == again["requests"] == 24 for again in found["repeatability"])
        texts.append(run_json(trace.with_name(name) / "static" / "1")["totals"]["run"]["output_tokens"])
    assert texts[0] == texts[1]


def test_prompts_are_an_offline_job(tiny_model: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"prompt": f"Say {n}.", "max_tokens": 2 + n % 4} for n in range(12)])
    found = compare(tiny_model, path, "--repeat", 1, "--max-num-seqs", 4)
    assert {"makespan", "output_throughput"} <= rows(found, "static").keys()
    arrivals = {row["arrival_ns"] for row in table(tmp_path / "p.jsonl.compare" / "static" / "1" / "requests.parquet")}
    assert arrivals == {0}


def test_prompts_are_computed_whole_but_where_a_variant_cuts_them(tiny_model: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"prompt": "word " * 30 + f"{n:02}", "max_tokens": 4} for n in range(9)])
    tokens, variant = ("--max-num-batched-tokens", 64), ("--variant", "cut:max_num_batched_tokens=64")
    compare(tiny_model, path, *variant, *tokens, "--raw", "--repeat", 1, "--max-num-seqs", 4)
    directory = tmp_path / "p.jsonl.compare"
    chunks = {
        name: {step["prefill_tokens"] / step["prefill_seqs"] for step in steps if step["prefill_seqs"]}
        for name in ("static", "continuous", "cut")
        for steps in [table(directory / name / "1" / "steps.parquet")]
    }
    (length,) = {row["prompt_tokens"] for row in table(directory / "static" / "1" / "requests.parquet")}
    assert length > 128
    assert chunks["static"] == chunks["continuous"] == {length}
    assert max(chunks["cut"]) <= 64
    assert run_json(directory / "static" / "1")["scheduler"]["whole_prompts"]


def test_an_interrupted_comparison_says_what_it_has(tiny_model: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(30, gap_ms=20))
    process = subprocess.Popen(
        command("compare", trace, "-m", tiny_model, "--repeat", 50),
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )
    while not (tmp_path / "t.parquet.compare" / "static" / "2" / "run.json").exists():
        assert process.poll() is None
        time.sleep(0.05)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "of 50 repetitions are compared" in out


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["TRACE", "--policies", "static,dynamic"], "--policies has 'dynamic'"),
        (["TRACE", "--policies", "static"], "only one variant"),
        (["TRACE", "--ladder", "--policies", "static,padded"], "leave one out"),
        (["TRACE", "--variant", "static:kv=split"], "two variants are called static"),
        (["TRACE", "--variant", "a:kv=both"], "kv mode is 'both'"),
        (["TRACE", "--variant", "a:max_num_seqs=0"], "max_num_seqs is 0"),
        (["TRACE", "--repeat", "0"], "--repeat is 0"),
        (["TRACE", "--static-wait", "-1"], "static-wait is -1"),
        (["TRACE", "--on-overflow", "shift"], "--on-overflow shift can't be compared"),
        (["none.parquet"], "none.parquet"),
        (["-", "-o", "never-made"], "standard input can be read once only"),
    ],
)
def test_mistakes_in_the_call(tiny_model: Path, trace: Path, arguments: list[object], message: str) -> None:
    given = [trace if argument == "TRACE" else argument for argument in arguments]
    ran = cbatch("compare", *given, "-m", tiny_model)
    assert ran.code == 2, ran.err
    assert message in ran.err
    assert not (trace.with_name("trace.parquet.compare") / "static").exists()
