from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.trace_command import mistake, trace
from tests.traces.files import AZURE, VIDUR, public_trace, write_lines, write_records


def test_lint_of_public_files() -> None:
    names = ["azure_2023_code.csv", "mooncake_conversation_600.jsonl"]
    azure, mooncake = trace("lint", *map(public_trace, names)).split("\n\n")
    assert azure.splitlines()[0] == str(public_trace(names[0]))
    assert "naive times with 7 fractional digits" in azure
    assert mooncake.splitlines()[0] == str(public_trace(names[1]))
    for finding in ("ticks of 3 s", "timestamp is read as milliseconds", "hash_ids holds 512-token blocks"):
        assert finding in mooncake


def test_lint_exits_with_3_where_requests_are_lost(tmp_path: Path) -> None:
    good = write_lines(tmp_path, VIDUR, "0,1,1", name="good")
    bad = write_lines(tmp_path, VIDUR, "0,1,1", "x,1,1", name="bad")
    trace("lint", good)
    assert "error: 1 lines can't be read and are left out" in trace("lint", good, bad, code=3)


def test_lint_goes_on_after_a_file_that_can_not_be_read(tmp_path: Path) -> None:
    bad = write_lines(tmp_path, VIDUR, "0,1,1", "x,1,1", name="bad")
    printed = trace("lint", tmp_path / "absent", bad, tmp_path, code=2)
    assert "absent can't be read: No such file or directory" in printed
    assert "(bad_lines)" in printed
    assert "can't be read: Is a directory" in printed


def test_lint_takes_options(tmp_path: Path) -> None:
    path = write_lines(tmp_path, VIDUR, "5,1,1", "9,1,1")
    assert "read as milliseconds" in trace("lint", path, "--time-unit", "ms")
    assert "format is 'x'" in mistake("lint", path, "--format", "x")


def test_show_of_a_trace_and_of_another_format(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    trace("gen", "-o", path, "-r", 1, "--num-requests", 40)
    assert "40 in " in trace("show", path)
    other = trace("show", public_trace("azure_2023_code.csv"))
    assert "8,819 in 3,435.9 s" in other
    assert "azure_2023_code.csv" in other


def test_show_as_json(tmp_path: Path) -> None:
    path = write_lines(tmp_path, AZURE, "2023-11-16 18:00:02,30,4", "2023-11-16 18:00:00,10,0")
    record = json.loads(trace("show", path, "--json"))
    assert (record["num_requests"], record["span_ns"], record["request_rate"]) == (2, 2_000_000_000, 0.5)
    assert record["prompt_tokens"]["total"] == 40
    assert record["prefix_reuse"] == 0
    assert record["manifest"]["source"] == {"kind": "imported", "file": "trace", "format": "azure"}
    assert record["manifest"]["changes"] == {"requests_reordered": 1, "zero_outputs_raised_to_1": 1}


def test_show_of_what_has_no_times(tmp_path: Path) -> None:
    message = mistake("show", write_records(tmp_path, "one", "two"))
    assert "prompts, which have no times to show: import it first, with cbatch trace import" in message


@pytest.mark.parametrize("options", [(), ("--format", "cbatch")])
def test_show_of_no_trace(tmp_path: Path, options: tuple[str, ...]) -> None:
    for path in (tmp_path, tmp_path / "absent", write_lines(tmp_path, "a,b", "1,2")):
        assert str(path) in mistake("show", path, *options)
