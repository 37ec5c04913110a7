"""`cbatch replay` as a user runs it, on the tiny model and on SmolLM2."""

from __future__ import annotations

import json
import math
import signal
import subprocess
import time
from collections import Counter
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest

from cbatch.traces.trace import Manifest, TraceRequest
from cbatch.traces.writer import TraceWriter
from tests.e2e.command import EXAMPLES, Ran, cbatch, command, results, run_json, table, write_rows

MS = 1_000_000


def write_trace(path: Path, requests: Iterable[TraceRequest], rate: float | None = None) -> Path:
    with TraceWriter(path, Manifest(request_rate=rate)) as writer:
        for request in requests:
            writer.add(request)
    return path


def steady(count: int, gap_ms: int = 20, prompt: int = 24, output: int = 5) -> list[TraceRequest]:
    return [TraceRequest(n * gap_ms * MS, prompt_tokens=prompt, output_tokens=output) for n in range(count)]


@pytest.fixture
def trace(tmp_path: Path) -> Path:
    return write_trace(tmp_path / "trace.parquet", steady(20), rate=50)


def replay(model: Path, *arguments: object) -> tuple[Ran, dict[str, Any]]:
    """A replay that goes well, and its JSON summary."""
    ran = cbatch("replay", *arguments, "-m", model, "-q", "--summary", "json")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert isinstance(summary, dict)
    return ran, summary


def test_a_trace_is_played_at_its_times_with_its_lengths(tiny_model: Path, trace: Path) -> None:
    _, summary = replay(tiny_model, trace, "--goodput", "ttft:5000", "tpot:1000", "--percentiles", "50,95")
    directory = trace.with_name("trace.parquet.replay")
    requests = sorted(table(directory / "requests.parquet"), key=lambda row: row["row"])
    assert [row["arrival_ns"] for row in requests] == [n * 20 * MS for n in range(20)]
    assert all(0 <= row["slip_ns"] == row["enqueued_ns"] - row["arrival_ns"] for row in requests)
    assert {(row["prompt_tokens"], row["output_tokens"], row["finish_reason"]) for row in requests} == {
        (24, 5, "length")
    }
    assert all(sum(row["attribution"].values()) == row["e2e_ns"] for row in requests)
    assert all(len(row["token_ns"]) == 5 for row in requests)
    assert len(results(directory)) == 20
    assert summary["arrived"] == summary["completed"] == 20
    assert summary["requested_rate"] == 50
    assert summary["realised_rate"] == pytest.approx(50)
    assert summary["attainment"] == 1
    assert summary["goodput_rps"] == summary["run"]["requests_per_s"]
    assert "p95_ns" in summary["latencies"]["ttft_ns"]
    record = run_json(directory)
    assert record["status"] == "complete"
    assert record["totals"]["arrived"] == 20
    assert record["replay"]["objectives"] == {"ttft_ns": 5e9, "tpot_ns": 1e9}


def test_the_table_for_people(tiny_model: Path, trace: Path) -> None:
    ran = cbatch("replay", trace, "-m", tiny_model, "--goodput", "ttft:5000")
    assert ran.code == 0
    for words in ("20 arrived: 20 completed", "slip", "not saturated", "own prefill", "goodput", "requests.parquet"):
        assert words in ran.out
    assert all(len(line) <= 80 or "trace.parquet" in line for line in ran.out.splitlines())
    assert "arrived 20/20" in ran.err


def test_a_rate_stretches_the_times_and_transforms_apply(tiny_model: Path, trace: Path) -> None:
    replay(tiny_model, trace, "-r", 100, "--limit", 6, "--scale-lengths", 0.5, "-o", trace.with_name("o"))
    requests = sorted(table(trace.with_name("o") / "requests.parquet"), key=lambda row: row["row"])
    assert [row["arrival_ns"] for row in requests] == [n * 10 * MS for n in range(6)]
    assert {(row["prompt_tokens"], row["output_tokens"]) for row in requests} == {(12, 2)}
    record = run_json(trace.with_name("o"))["replay"]
    assert record["transforms"] == ["limit 6", "scale_lengths 0.5"]


def test_prompts_with_shared_prefixes_share_them(tiny_model: Path, tmp_path: Path) -> None:
    shared = [TraceRequest(0, prompt_tokens=40, output_tokens=1, prefix_ids=(1, n), prefix_block=16) for n in (2, 3)]
    replay(tiny_model, write_trace(tmp_path / "t.parquet", shared))


def test_requests_beyond_the_context_go_on_where_it_is_shifted(tiny_model: Path, tmp_path: Path) -> None:
    long = [TraceRequest(0, prompt_tokens=40, output_tokens=500), TraceRequest(MS, prompt_tokens=600, output_tokens=9)]
    trace = write_trace(tmp_path / "t.parquet", long)
    arguments = ["--ctx", 256, "--on-overflow", "shift", "-o", tmp_path / "o"]
    ran = cbatch("replay", trace, "-m", tiny_model, "-t", 1, "-q", *arguments)
    assert ran.code == 0, ran.err
    requests = sorted(table(tmp_path / "o" / "requests.parquet"), key=lambda row: row["row"])
    assert [(row["prompt_tokens"], row["output_tokens"]) for row in requests] == [(40, 500), (248, 9)]
    notes = run_json(tmp_path / "o")["notes"]
    assert any("1 requests outgrew the context of 256" in note for note in notes)
    assert any("1 requests had their prompts cut" in note for note in notes)


def test_natural_lengths_let_the_model_stop(tiny_model: Path, trace: Path) -> None:
    replay(tiny_model, trace, "--natural-lengths", "--max-tokens", 7, "-o", trace.with_name("o"))
    requests = table(trace.with_name("o") / "requests.parquet")
    assert max(row["output_tokens"] for row in requests) == 7


def test_a_closed_loop_keeps_so_many_in_flight(tiny_model: Path, trace: Path) -> None:
    _, summary = replay(tiny_model, trace, "-r", "inf", "--max-concurrency", 3)
    assert summary["peak_running"] <= 3
    assert summary["requested_rate"] is None
    assert "closed loop: 3 requests in flight, each arriving when another ends" in summary["notes"]
    requests = sorted(
        table(trace.with_name("trace.parquet.replay") / "requests.parquet"), key=lambda r: r["arrival_ns"]
    )
    ends = sorted(row["finished_ns"] for row in requests)
    for place, row in enumerate(requests[3:]):
        assert row["arrival_ns"] >= ends[place]


def test_all_at_once(tiny_model: Path, trace: Path) -> None:
    _, summary = replay(tiny_model, trace, "-r", "inf")
    assert summary["saturation"] is None
    assert "all requests arrive at once" in summary["notes"]


def test_a_limit_on_concurrency_shows_as_slip(tiny_model: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(6, gap_ms=0, output=20))
    _, summary = replay(tiny_model, trace, "--max-concurrency", 1)
    assert summary["peak_running"] == 1
    assert summary["attribution"]["slip_ns"] > summary["attribution"]["queue_ns"]


def test_what_is_unfinished_at_the_end_counts(tiny_model: Path, tmp_path: Path) -> None:
    """300 requests within 0.3 s, of which a tiny part can be done by then."""
    trace = write_trace(tmp_path / "t.parquet", steady(300, gap_ms=1, prompt=200, output=40))
    options = ("--duration", 0.2, "--grace-period", 0.1, "--max-num-seqs", 2, "--goodput", "ttft:1000")
    ran = cbatch("replay", trace, "-m", tiny_model, "--summary", "json", "-q", *options)
    summary = json.loads(ran.out)
    assert ran.code == 0
    assert summary["arrived"] == 200
    assert summary["unfinished"] > 100
    assert summary["completed"] + summary["unfinished"] == 200
    assert summary["adjusted"]["e2e_ns"]["p99_ns"] == "inf"
    assert summary["saturation"]["saturated"] is True
    assert summary["attainment"] == pytest.approx(summary["completed"] / 200, abs=0.05)
    assert Counter(row["finish_reason"] for row in results(tmp_path / "t.parquet.replay")) == {
        "cancelled": summary["unfinished"], **({"length": summary["completed"]} if summary["completed"] else {})
    }  # fmt: skip
    assert run_json(tmp_path / "t.parquet.replay")["status"] == "time_up"


def test_prompts_get_an_arrival_process(tiny_model: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "p.jsonl", [{"prompt": f"Say {n}.", "max_tokens": 3, "note": n} for n in range(12)])
    arrivals = []
    for seed in (0, 0, 1):
        replay(tiny_model, rows, "-r", 40, "--burstiness", 0.5, "--seed", seed, "-o", tmp_path / "o", "--force")
        requests = sorted(table(tmp_path / "o" / "requests.parquet"), key=lambda row: row["row"])
        arrivals.append([row["arrival_ns"] for row in requests])
    assert arrivals[0] == arrivals[1] != arrivals[2]
    assert sorted(arrivals[0]) == arrivals[0]
    assert sorted(row["note"] for row in results(tmp_path / "o")) == list(range(12))


def test_prompts_may_be_a_table(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("id,prompt\na,one\nb,two\n", "utf-8")
    _, summary = replay(tiny_model, path, "-r", "inf", "--max-tokens", 2)
    assert summary["completed"] == 2
    assert [row["id"] for row in results(tmp_path / "p.csv.replay")] == ["a", "b"]


def test_a_bad_row_among_prompts_costs_no_other(tiny_model: Path, tmp_path: Path) -> None:
    path = write_rows(tmp_path / "p.jsonl", [{"prompt": "a", "max_tokens": 2}, {"prompt": 7}, {"prompt": "b"}])
    ran = cbatch("replay", path, "-m", tiny_model, "-r", 100, "--max-tokens", 2, "--summary", "json", "-q")
    assert ran.code == 3
    summary = json.loads(ran.out)
    assert (summary["arrived"], summary["completed"], summary["failed"]) == (3, 2, 1)


def test_a_timeline_is_written(tiny_model: Path, trace: Path) -> None:
    replay(tiny_model, trace, "--timeline", trace.with_name("timeline.json"))
    events = json.loads(trace.with_name("timeline.json").read_text("utf-8"))["traceEvents"]
    names = Counter(event["name"] for event in events if event["ph"] == "X" and event.get("cat") == "request")
    assert names == {str(n): 1 for n in range(1, 21)}


def test_a_timeline_may_lie_in_the_output_directory(tiny_model: Path, trace: Path) -> None:
    out = trace.with_name("new")
    replay(tiny_model, trace, "-o", out, "--timeline", out / "timeline.json")
    assert json.loads((out / "timeline.json").read_text("utf-8"))["traceEvents"]
    ran = cbatch(
        "replay", trace, "-m", tiny_model, "-o", trace.with_name("o"), "--timeline", trace.with_name("o") / "run.json"
    )
    assert ran.code == 2
    assert "writes a file of that name itself" in ran.err


def test_a_sweep_has_a_table_and_a_directory_for_each_rate(tiny_model: Path, trace: Path) -> None:
    out = trace.with_name("sweep")
    ran = cbatch(
        "replay", trace, "-m", tiny_model, "-q", "--sweep-rate", "50:200:2x", "-o", out, "--goodput", "ttft:9000"
    )
    assert ran.code == 0, ran.err
    assert "200" in ran.out
    rows = pq.read_table(out / "sweep.parquet").to_pylist()
    assert [row["request_rate"] for row in rows] == [50, 100, 200]
    assert all(row["completed"] == 20 and row["attainment"] == 1 for row in rows)
    for rate in (50, 100, 200):
        assert len(table(out / f"rate-{rate}" / "requests.parquet")) == 20
        assert run_json(out / f"rate-{rate}")["replay"]["requested_rate"] == rate


def test_the_capacity_is_searched(tiny_model: Path, trace: Path) -> None:
    """No rate holds an end-to-end latency of a nanosecond."""
    out = trace.with_name("capacity")
    options = ("--find-capacity", "--goodput", "e2e:0.000001", "--limit", 2, "-r", 50)
    ran = cbatch("replay", trace, "-m", tiny_model, "-q", *options, "-o", out)
    assert ran.code == 2
    assert "leave one out" in ran.err
    ran = cbatch(
        "replay", trace, "-m", tiny_model, "-q", *options[:-2], "-o", out, "--summary", "json", "--speedup", 50
    )
    assert ran.code == 0, ran.err
    assert json.loads(ran.out)["capacity"]["rate"] is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nothing.parquet"], "nothing.parquet can't be read: No such file"),
        (["x" * 300], "can't be read: File name too long"),
        (["TRACE", "--chat-template", "x" * 300], "there is no such file"),
        (["TRACE", "--lora", "x" * 300 + ":5"], "there is no such LoRA adapter"),
        ([EXAMPLES / "prompts.jsonl"], "prompts have no arrival times; give --request-rate"),
        (["TRACE", "--goodput", "speed:5"], "speed:5"),
        (["TRACE", "ttft:5"], "give it after --goodput"),
        (["TRACE", "--find-capacity"], "needs an objective"),
        (["TRACE", "--sweep-rate", "x"], "1:16:2x"),
        (["TRACE", "--sweep-rate", "1,2", "-r", "1"], "leave one out"),
        (["TRACE", "--percentiles", "101"], "--percentiles"),
        (["TRACE", "--window", "5:1"], "--window"),
        (["TRACE", "--window", "50:90"], "no requests left"),
        (["TRACE", "--speedup", "0"], "--speedup"),
        (["TRACE", "--max-concurrency", "0"], "max-concurrency is 0"),
        (["TRACE", "--duration", "0"], "--duration"),
        (["TRACE", "--grace-period", "-1"], "--grace-period"),
        (["TRACE", "--attainment", "1.5"], "--attainment"),
        (["TRACE", "--num-warmups", "-1"], "--num-warmups"),
        (["TRACE", "-r", "0"], "--request-rate"),
        (["TRACE", "-r", "nan"], "--request-rate"),
        (["TRACE", "--burstiness", "2"], "--burstiness"),
        (["TRACE", "--burstiness", "2", "-r", "5"], "arrival times of its own"),
        (["-", "-o", "OUT", "--find-capacity", "--goodput", "ttft:5"], "standard input can be read once only"),
        (["TRACE", "--timeline", "no/such/folder/t.json"], "no/such/folder"),
        (["TRACE", "--timeline", "TRACE", "--force"], "is what is replayed"),
        (["TRACE", "--timeline", EXAMPLES / "prompts.jsonl"], "exists: give another name, or --force"),
        (["TRACE", "--timeline", EXAMPLES, "--force"], "isn't a plain file"),
        (["TRACE", "--goodput", "ttft:5", "tpot:nan"], "'tpot:nan': give milliseconds above 0"),
        (["TRACE", "--goodput", "ttft:5", "TPOT:5"], "'TPOT:5': give ttft, tpot"),
        (["TRACE", "--scale-lengths", "1e30"], "which makes 5e+30 output_tokens of 5"),
        (["TRACE", "TRACE"], "one trace"),
    ],
)
def test_mistakes_in_the_call(tiny_model: Path, trace: Path, arguments: list[object], message: str) -> None:
    given = [trace if argument == "TRACE" else argument for argument in arguments]
    ran = cbatch("replay", *given, "-m", tiny_model)
    assert ran.code == 2, ran.err
    assert message in ran.err
    assert not (trace.with_name("trace.parquet.replay") / "run.json").exists()


def test_another_trace_format_is_to_be_imported_first(tiny_model: Path, tmp_path: Path) -> None:
    path = tmp_path / "azure.csv"
    path.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16 18:17:03.9799600,48,10\n", "utf-8")
    ran = cbatch("replay", path, "-m", tiny_model)
    assert ran.code == 2
    assert f"cbatch trace import {path} -o trace.parquet" in ran.err


def test_an_interrupted_replay_finishes_what_runs(tiny_model: Path, tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(2000, gap_ms=10))
    process = subprocess.Popen(
        command("replay", trace, "-m", tiny_model), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )
    while not (tmp_path / "t.parquet.replay" / "run.json").exists():
        time.sleep(0.05)
    time.sleep(1)
    process.send_signal(signal.SIGINT)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 130, err
    assert "stopped on request" in out
    finished = table(tmp_path / "t.parquet.replay" / "requests.parquet")
    assert 0 < len(finished) < 2000
    assert run_json(tmp_path / "t.parquet.replay")["status"] == "stopped"


@pytest.mark.e2e
def test_smollm2_replays_a_trace(tmp_path: Path) -> None:
    trace = write_trace(tmp_path / "t.parquet", steady(25, gap_ms=200, prompt=40, output=6), rate=5)
    ran = cbatch("replay", trace, "--summary", "json", "-q")
    assert ran.code == 0, ran.err
    summary = json.loads(ran.out)
    assert summary["completed"] == 25
    assert math.isclose(sum(summary["attribution"].values()), summary["latencies"]["e2e_ns"]["mean_ns"], rel_tol=1e-6)
