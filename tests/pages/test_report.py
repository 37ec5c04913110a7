"""The written report: one file without addresses, pictures beside it, and what is refused."""

from __future__ import annotations

import json
import shutil
from pathlib import Path

import pytest

from cbatch.errors import InputError, OutputError, UsageError
from cbatch.outputs import WriteError
from cbatch.pages import write_report
from cbatch.pages.words import NBSP
from tests.pages.directories import change, entry, write_comparison, write_replay, write_sweep_directory
from tests.pages.html import PNG, Page


def report(output: Path, *directories: Path) -> Page:
    """A report, checked for what holds for all."""
    written = write_report(directories, output)
    page = Page(output)
    assert written[0] == output
    assert all(path.read_bytes().startswith(PNG) for path in written[1:])
    assert len(page.alts) == len(written) - 1
    assert page.alts == page.captions
    assert all(page.alts)
    assert len(page.pictures) == 2 * len(page.alts)
    assert len(set(page.pictures)) == len(page.pictures)
    assert all(png.startswith(PNG) for png in page.pictures)
    assert "script" not in page.tags
    assert "http" not in page.text
    assert output.stat().st_size < 3_000_000
    return page


def test_a_replay(tmp_path: Path) -> None:
    summary = write_replay(tmp_path / "first")
    page = report(tmp_path / "report.html", tmp_path / "first")
    assert len(page.alts) == 7
    assert {path.name for path in tmp_path.glob("*.png")} == {
        f"report-{name}.png" for name in ("ttft", "tpot", "arrival", "throughput", "slots", "attribution", "kv")
    }
    for words in (
        "What ran",
        "fake.gguf",
        "120 completed, 0 not",
        f"{summary.attainment:.0%}".replace("%", f"{NBSP}%"),
    ):
        assert words in page.text
    assert not list(tmp_path.glob(".*"))


def test_a_run_has_what_applies_to_it(tmp_path: Path) -> None:
    write_replay(tmp_path / "run", is_replay=False)
    page = report(tmp_path / "report.html", tmp_path / "run")
    assert len(page.alts) == 5
    assert "first token within" not in page.text
    assert "against arrival" not in page.text


def test_a_sweep(tmp_path: Path) -> None:
    write_sweep_directory(tmp_path / "sweep")
    page = report(tmp_path / "report.html", tmp_path / "sweep")
    assert len(page.alts) == 5
    assert "Rate sweep: sweep" in page.text


def test_a_comparison(tmp_path: Path) -> None:
    write_comparison(tmp_path / "c")
    page = report(tmp_path / "c.html", tmp_path / "c")
    assert len(page.alts) == 8
    for words in (
        "a step takes longer with more sequences here",
        "TTFT mean",
        f"400{NBSP}ms",
        "0.250 (0.225 to 0.275)",
        "117 of 120",
        "7 at token 4 (logits 0.0125 apart)",
        "Sums of floating-point numbers depend on the shape of the batch",
        "120 of 120",
    ):
        assert words in page.text


def test_everything_together_has_distinct_names(tmp_path: Path) -> None:
    write_replay(tmp_path / "a" / "run", count=20)
    write_replay(tmp_path / "b" / "run", count=20)
    write_sweep_directory(tmp_path / "sweep", (10.0, 14.142136))
    write_comparison(tmp_path / "c", repeats=1)
    directories = [tmp_path / "a" / "run", tmp_path / "b" / "run", tmp_path / "sweep", tmp_path / "c"]
    page = report(tmp_path / "report.html", *directories, directories[0])
    assert len(page.alts) == 8 + 5 + 7
    assert "(a/run) and" in page.text
    assert (tmp_path / "report-ttft-2.png").exists()


def test_what_isnt_finished_is_said(tmp_path: Path) -> None:
    write_replay(tmp_path / "going", status="running", totals=None, count=20)
    write_replay(tmp_path / "broken", status="failed", error="the disk is full", count=20)
    write_killed(tmp_path / "killed")
    page = report(tmp_path / "report.html", tmp_path / "going", tmp_path / "broken", tmp_path / "killed")
    assert page.text.count("this isn't finished: it still runs, or was killed") == 2
    assert "the disk is full" in page.text
    alone = report(tmp_path / "alone.html", tmp_path / "killed")
    assert alone.alts == []
    assert "There is nothing to draw" in alone.text


def test_any_name_is_shown_and_none_harms_the_page(tmp_path: Path) -> None:
    names = ["<b>$x_&\"'", "試験", "_a"]
    for name in names:
        write_replay(tmp_path / name, count=20, is_replay=False, notes=["<script>alert(1)</script>"])
    page = report(tmp_path / "report.html", *(tmp_path / name for name in names))
    assert "b" not in page.tags
    assert all(word in page.text for word in (*names, "<script>alert(1)</script>"))


def write_killed(directory: Path) -> Path:
    """A replay that left nothing but run.json."""
    write_replay(directory, count=1, status="running", totals=None)
    for name in ("requests.parquet", "steps.parquet"):
        (directory / name).unlink()
    return directory


def test_an_earlier_report_is_replaced_and_nothing_else(tmp_path: Path) -> None:
    killed = write_killed(tmp_path / "r")
    report(tmp_path / "report.html", killed)
    change(killed / "run.json", error="power cut")
    assert "power cut" in report(tmp_path / "report.html", killed).text
    (tmp_path / "mine.html").write_text("<html>my thesis</html>", "utf-8")
    with pytest.raises(OutputError, match=r"mine\.html exists and isn't a report of cbatch"):
        write_report([killed], tmp_path / "mine.html")
    with pytest.raises(OutputError, match="is a directory: give a file name, such as"):
        write_report([killed], tmp_path)
    with pytest.raises(OutputError, match="no/such is no directory"):
        write_report([killed], tmp_path / "no" / "such" / "report.html")


def test_a_picture_that_cant_be_written_is_an_error(tmp_path: Path) -> None:
    write_replay(tmp_path / "r", count=20, is_replay=False)
    (tmp_path / "report-tpot.png").mkdir()
    with pytest.raises(WriteError, match=r"report-tpot\.png can't be written"):
        write_report([tmp_path / "r"], tmp_path / "report.html")


def test_what_is_no_directory_of_cbatch(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    with pytest.raises(UsageError, match="no directory"):
        write_report([], output)
    with pytest.raises(InputError, match="nothing doesn't exist"):
        write_report([tmp_path / "nothing"], output)
    (tmp_path / "file").write_text("", "utf-8")
    with pytest.raises(InputError, match="file is a file"):
        write_report([tmp_path / "file"], output)
    (tmp_path / "empty").mkdir()
    with pytest.raises(InputError, match=r"has no run\.json, sweep\.parquet or compare\.json"):
        write_report([tmp_path / "empty"], output)
    assert not output.exists()


def test_a_damaged_sweep_or_comparison_is_named(tmp_path: Path) -> None:
    output = tmp_path / "report.html"
    write_sweep_directory(tmp_path / "s", (10.0, 40.0))
    shutil.rmtree(tmp_path / "s" / "rate-40")
    with pytest.raises(InputError, match=r"rate-40 is missing, and .*sweep\.parquet has its rate"):
        write_report([tmp_path / "s"], output)
    (tmp_path / "s" / "sweep.parquet").write_bytes(b"PAR1")
    with pytest.raises(InputError, match=r"sweep\.parquet can't be used"):
        write_report([tmp_path / "s"], output)
    write_comparison(tmp_path / "c", repeats=1)
    change(tmp_path / "c" / "compare.json", metrics=[entry("ttft_mean", "static", 1.0, None, better="up")])
    with pytest.raises(InputError, match=r"compare\.json can't be used: .*ttft_mean is better 'up'"):
        write_report([tmp_path / "c"], output)
    change(tmp_path / "c" / "compare.json", metrics=[], repeats=2)
    with pytest.raises(InputError, match=r"static/2/run\.json can't be used: No such file"):
        write_report([tmp_path / "c"], output)
    (tmp_path / "c" / "compare.json").write_text(json.dumps({"variants": ["a"]}), "utf-8")
    with pytest.raises(
        InputError, match=r"compare\.json can't be used: it isn't what cbatch compare writes \(KeyError"
    ):
        write_report([tmp_path / "c"], output)
