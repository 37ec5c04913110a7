from __future__ import annotations

import io
import json
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest
from rich.cells import cell_len
from rich.console import Console

from cbatch.metrics.percentiles import Distribution
from cbatch.metrics.run import LATENCIES, RunAccumulator, RunSummary
from cbatch.report.summary import print_summary, summary_json

PATHS = {"results": Path("prompts.cbatch/results"), "run": Path("prompts.cbatch") / ("deep/" * 30 + "run.json")}
NOTES = ["chat template: the model's own", "12 rows reached max_tokens (256): raise --max-tokens"]


def make_summary(rows: int = 200) -> RunSummary:
    return replace(
        RunAccumulator().summary(),
        rows_total=rows + 3,
        rows_ok=rows,
        rows_failed=3,
        finish_reasons={"stop": rows, "error": 3},
        prompt_tokens=123_456,
        output_tokens=45_678,
        duration_ns=110_700_000_000,
        engine_ns=109_200_000_000,
        output_tokens_per_s=412.3,
        slot_utilisation=0.943,
        llama_share=0.9912,
        latencies={name: Distribution.of(np.full(rows, 250e6)) for name in LATENCIES},
    )


def printed(summary: RunSummary, width: int = 80, encoding: str = "utf-8") -> list[str]:
    data = io.BytesIO()
    console = Console(file=io.TextIOWrapper(data, encoding, write_through=True), width=width)
    print_summary(summary, PATHS, NOTES, console=console)
    return data.getvalue().decode(encoding).splitlines()


def test_the_table() -> None:
    text = "\n".join(line.rstrip() for line in printed(make_summary()))
    for part in (
        "rows        200 of 203 answered, 3 failed",
        "finished    stop 200, error 3",
        "tokens      123,456 prompt, 45,678 output",
        "time        110.7 s (1:51); engine 109.2 s, 99.1 % of it in llama_decode",
        "throughput  412 output tok/s",
        "slots 94 % busy",
        "  chat template: the model's own",
        "  results   prompts.cbatch/results",
    ):
        assert part in text
    assert "TTFT 250 ms 250 ms 250 ms 250 ms" in " ".join(text.split())
    assert "p99 needs" not in text


@pytest.mark.parametrize("width", [60, 80, 200])
def test_it_fits_80_columns_and_the_paths_are_whole(width: int) -> None:
    lines = printed(make_summary(), width)
    path = f"  run       {PATHS['run']}"
    assert path in lines
    assert max(cell_len(line) for line in lines if line != path) <= min(80, width)


def test_a_missing_p99_is_explained_once() -> None:
    text = "\n".join(printed(make_summary(rows=42)))
    assert text.count("p99 needs 100 values, there are 42") == 1
    assert "TTFT 250 ms 250 ms 250 ms -" in " ".join(text.split())


def test_a_run_without_an_answer_has_no_latencies() -> None:
    text = "\n".join(printed(RunAccumulator().summary()))
    assert "0 of 0 answered" in text
    assert "TTFT" not in text


def test_any_path_can_be_printed_in_any_encoding() -> None:
    data = io.BytesIO()
    console = Console(file=io.TextIOWrapper(data, "ascii", write_through=True), width=80)
    print_summary(make_summary(), {"results": "日本/\udcff"}, ["é"], console=console)
    assert b"\\u65e5\\u672c/\\ufffd" in data.getvalue()


def test_json_is_one_object() -> None:
    line = summary_json(make_summary(), PATHS, NOTES)
    assert "\n" not in line
    record = json.loads(line)
    assert record["rows_ok"] == 200
    assert record["latencies"]["ttft_ns"]["p50_ns"] == 250e6
    assert record["paths"]["results"] == "prompts.cbatch/results"
    assert record["notes"] == NOTES
    assert record["requests_per_s"] is None
