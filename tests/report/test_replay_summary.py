from __future__ import annotations

import io
import json

import pytest
from rich.cells import cell_len
from rich.console import Console

from cbatch.metrics import ReplaySummary
from cbatch.report.replay_summary import print_replay_summary, replay_summary_json
from tests.report.replays import make_replay

PATHS = {"results": "trace.cbatch/results", "timeline": "deep/" * 30 + "out.json"}
NOTES = ["3 prompts were cut"]
MANY = (1.0, 5.0, 25.0, 50.0, 75.0, 90.0, 95.0, 99.0, 99.9)


def printed(summary: ReplaySummary, width: int = 80, encoding: str = "utf-8") -> str:
    data = io.BytesIO()
    console = Console(file=io.TextIOWrapper(data, encoding, write_through=True), width=width)
    print_replay_summary(summary, PATHS, NOTES, console=console)
    return "\n".join(line.rstrip() for line in data.getvalue().decode(encoding).splitlines())


def squeezed(text: str) -> str:
    return " ".join(text.split())


def test_a_replay_where_all_went_well() -> None:
    text = printed(make_replay())
    for part in (
        "requests  996 arrived: 996 completed",
        "tokens    123,456 prompt, 45,678 output",
        "time      250.0 s (4:10) from the first arrival to the last end",
        "rate      4.12 requests/s arrived, 4.00 asked for",
        "slip      mean 1.00 ms, p50 1.00 ms, p90 1.40 ms, p99 1.49 ms",
        "load      at most 16 running, 80 waiting",
        "queue     not saturated: 8 waiting halfway, 3 at the last arrival",
        "used      engine 93 % of the time, slots 74 % in steps, 41 % of reserved KV",
        "goodput   3.21 requests/s; 81 % of those arrived met TTFT 500 ms, TPOT 50 ms",
        "Latency of 996 completed requests",
        "Of 870 that arrived in steady state",
        "Where the 1.44 s of a completed request went, in the mean",
        "  3 prompts were cut",
        "  results   trace.cbatch/results",
    ):
        assert part in text
    for row in (
        "requests/s output tok/s all tok/s running during",
        "whole 3.98 412 1,320 12.3 250 s",
        "steady 4.01 420 13.1 220 s",
        "queue TTFT TPOT pooled ITL e2e e2e/token",
        "p50 250 ms 500 ms 750 ms 1.00 s 1.25 s 1.50 s",
        "p50 500 ms 750 ms 1.25 s",
    ):
        assert row in squeezed(text)
    assert "Saturated" not in text
    assert "infinite" not in text
    assert "stands for" not in text


def test_failures_count_as_infinite_beside_what_completed() -> None:
    text = printed(make_replay(200, failed=1, unfinished=3, percentiles=(50.0, 99.0)))
    assert "requests  204 arrived: 200 completed, 1 failed, 3 unfinished" in text
    assert "The same with 1 failed and 3 unfinished as infinite" in text
    assert "p99 inf inf inf inf inf" in squeezed(text)
    assert "p99 372 ms" in squeezed(text)


def test_a_saturated_replay_is_warned_of_in_red() -> None:
    console = Console(file=io.StringIO(), force_terminal=True, color_system="standard", width=80, record=True)
    print_replay_summary(make_replay(saturated=True, steady=False), {}, console=console)
    styled = console.export_text(styles=True, clear=False)
    assert "\x1b[31mSaturated: the queue grew from 12 to 80 while requests still arrived." in styled
    text = squeezed(console.export_text())
    assert "The latencies below say how long the run was, not how the system behaves." in text
    assert "No steady state: the queue grows to the end." in text
    assert "steady 4.01" not in text


def test_what_can_not_be_told() -> None:
    text = printed(
        make_replay(42, saturated=None, requested_rate=None, realised_rate=None, goodput_rps=None, attainment=None)
    )
    assert "rate      - requests/s arrived" in text
    assert "can't be judged: too few, too short, all at once, or a closed loop" in text
    assert "goodput" not in text
    assert text.count("- stands for too few: p99 needs 100 values.") == 1


def test_a_replay_of_failures_has_no_latencies() -> None:
    text = printed(make_replay(0, failed=5, steady=False))
    assert "5 arrived: 5 failed" in text
    assert "TTFT  " not in text
    assert "Where" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_80_columns_with_any_percentiles(width: int) -> None:
    text = printed(make_replay(failed=2, saturated=True, percentiles=MANY), width)
    whole = f"  timeline  {PATHS['timeline']}"
    assert whole in text.splitlines()
    assert max(cell_len(line) for line in text.splitlines() if line != whole) <= min(80, width)
    assert "p99.9" in text
    assert "…" not in text


def test_the_bars_show_the_shares_in_any_encoding() -> None:
    lines = {line.split("  ")[0]: line for line in printed(make_replay(), encoding="ascii").splitlines()}
    assert lines["own decode"].count("#") == round(0.4861 * 42)
    assert lines["preempted"].count("#") == 0
    assert "█" * 20 in printed(make_replay())


def test_json_is_one_object() -> None:
    line = replay_summary_json(make_replay(200, failed=1, percentiles=(50.0, 99.9)), PATHS, NOTES)
    assert "\n" not in line
    record = json.loads(line)
    assert record["run"]["rows_ok"] == 200
    assert record["adjusted"]["e2e_ns"]["p50_ns"] > record["latencies"]["e2e_ns"]["p50_ns"]
    assert record["saturation"]["saturated"] is False
    assert record["paths"]["results"] == "trace.cbatch/results"
    assert record["notes"] == NOTES
