"""`cbatch report` as a user runs it, on what `cbatch run` and `cbatch replay` left."""

from __future__ import annotations

from pathlib import Path

from cbatch.traces.trace import Manifest, TraceRequest
from cbatch.traces.writer import TraceWriter
from tests.e2e.command import cbatch, write_rows
from tests.pages.html import Page

MS = 1_000_000


def test_a_run_and_a_replay_in_one_report(tiny_model: Path, tmp_path: Path) -> None:
    rows = write_rows(tmp_path / "p.jsonl", [{"prompt": f"Say {n}.", "max_tokens": 4} for n in range(6)])
    with TraceWriter(tmp_path / "t.parquet", Manifest()) as writer:
        for n in range(12):
            writer.add(TraceRequest(n * 20 * MS, prompt_tokens=20, output_tokens=5))
    model = ("-m", tiny_model, "-q", "-o")
    assert cbatch("run", rows, *model, tmp_path / "run").code == 0
    assert cbatch("replay", tmp_path / "t.parquet", *model, tmp_path / "replay", "--goodput", "ttft:500").code == 0
    output = tmp_path / "report.html"
    ran = cbatch("report", tmp_path / "run", tmp_path / "replay", "-o", output)
    assert ran.code == 0, ran.err
    page = Page(output)
    assert len(page.pictures) == 2 * len(page.alts)
    assert len(list(tmp_path.glob("report-*.png"))) == len(page.alts)
    assert ran.out == f"{output}\n{len(page.alts)} pictures beside it: report-*.png\n"
    assert "6 completed, 0 not" in page.text
    assert "12 completed, 0 not" in page.text


def test_a_directory_of_something_else(tmp_path: Path) -> None:
    ran = cbatch("report", tmp_path)
    assert ran.code == 2
    assert f"{tmp_path} has no run.json, sweep.parquet or compare.json" in ran.err
