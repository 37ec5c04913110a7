from __future__ import annotations

import json
from pathlib import Path

import pytest

from cbatch.traces.reader import read_trace
from tests.cli.trace_command import mistake, trace
from tests.traces.files import BURSTGPT, VIDUR, mooncake, public_trace, write_lines, write_records


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "out.parquet"


@pytest.fixture
def vidur(tmp_path: Path) -> Path:
    return write_lines(tmp_path, VIDUR, "0.5,30,10", "1.5,20,0", "1.0,40,20", "9.5,50,30")


@pytest.mark.parametrize("name", ["azure_2023_code.csv", "azure_2023_conv.csv", "mooncake_conversation_600.jsonl"])
def test_public_files_need_no_option(name: str, out: Path) -> None:
    path = public_trace(name)
    lines = trace("import", path, "-o", out).splitlines()
    trace_file = read_trace(out)
    form = name.split("_")[0]
    assert lines[0] == str(path)
    assert any(line.startswith("info: read as ") and form in line.lower() for line in lines)
    assert any(line.startswith(f"{out}: {trace_file.num_requests:,} requests in ") for line in lines)
    assert trace_file.manifest.source == {"kind": "imported", "file": name, "format": form}
    assert trace_file.manifest.changes == {}


def test_every_change_is_told_and_kept(vidur: Path, out: Path) -> None:
    lines = trace("import", vidur, "-o", out).splitlines()
    changes = {"requests_reordered": 1, "zero_outputs_raised_to_1": 1}
    assert read_trace(out).manifest.changes == changes
    assert lines[-2:] == ["  changed: 1 requests reordered", "  changed: 1 zero outputs raised to 1"]
    assert any(line.startswith("warning: ") and "(times_go_back)" in line for line in lines)
    found = [(request.arrival_ns, request.prompt_tokens, request.output_tokens) for request in read_trace(out)]
    assert found == [(0, 30, 10), (500_000_000, 40, 20), (1_000_000_000, 20, 1), (9_000_000_000, 50, 30)]


def test_transforms_come_after_sorting_and_are_recorded(vidur: Path, out: Path) -> None:
    options = ("--window", "0.25:5", "--limit", 1, "--speedup", 2, "--scale-lengths", 0.1)
    trace("import", vidur, "-o", out, *options)
    (request,) = read_trace(out)
    assert (request.arrival_ns, request.prompt_tokens, request.output_tokens) == (125_000_000, 4, 2)
    assert read_trace(out).manifest.transforms == ("window 0.25:5", "limit 1", "speedup 2", "scale_lengths 0.1")


def test_a_trace_of_its_own_keeps_its_past(tmp_path: Path, out: Path) -> None:
    first = tmp_path / "first.parquet"
    trace("gen", "-o", first, "-r", 4, "--num-requests", 50, "--output-tokens", "exponential:0.4")
    printed = trace("import", first, "-o", out, "--speedup", 0.5, "--limit", 20)
    before, after = read_trace(first).manifest, read_trace(out).manifest
    assert before.changes == after.changes != {}
    assert "changed:" not in printed  # these were made earlier
    assert (after.source, after.request_rate) == (before.source, 2.0)
    assert after.transforms == ("limit 20", "speedup 0.5")
    assert [r.arrival_ns for r in read_trace(out)] == [2 * r.arrival_ns for r in read_trace(first)][:20]


def test_in_place(tmp_path: Path) -> None:
    path = tmp_path / "t.parquet"
    trace("gen", "-o", path, "-r", 1, "--num-requests", 9)
    trace("import", path, "-o", path, "--force", "--limit", 3)
    assert read_trace(path).num_requests == 3


def test_given_arrivals_replace_times(tmp_path: Path, out: Path) -> None:
    path = write_records(tmp_path, *(mooncake(3000 * (i // 5)) for i in range(100)))
    assert "(quantised_times)" in trace("import", path, "-o", out)
    call = ("import", path, "-o", out, "--force", "--request-rate", 2, "--burstiness", 0.5, "--speedup", 2)
    printed = trace(*call, "--seed", 0)
    assert "(quantised_times)" not in printed
    assert "(asked: 4.00)" in printed
    manifest = read_trace(out).manifest
    assert manifest.request_rate == 4.0
    assert manifest.transforms == ("arrivals gamma request_rate 2 burstiness 0.5 seed 0", "speedup 2")
    assert manifest.changes == {"arrivals_replaced": 100}
    first = [request.arrival_ns for request in read_trace(out)]
    trace(*call)
    assert [request.arrival_ns for request in read_trace(out)] == first
    trace(*call, "--seed", 1)
    assert [request.arrival_ns for request in read_trace(out)] != first


def test_prompts_need_arrivals(tmp_path: Path, out: Path) -> None:
    path = write_records(tmp_path, "one", "two")
    assert "which have no times: give an arrival process, such as --request-rate" in mistake("import", path, "-o", out)
    printed = trace("import", path, "-o", out, "--arrival", "burst")
    assert "(no_times)" not in printed
    assert "  prompts: 2 given as text; outputs: 2 until the model stops" in printed.splitlines()
    assert [request.prompt for request in read_trace(out)] == ["one", "two"]


def test_replies_are_counted_by_a_models_tokenizer(tmp_path: Path, out: Path, tiny_model: Path) -> None:
    turns = [{"from": "human", "value": "Hello"}, {"from": "gpt", "value": "Good day"}]
    path = write_lines(tmp_path, json.dumps([{"id": "a", "conversations": turns}]))
    trace("import", path, "-o", out, "-r", 1, "--model", tiny_model)
    (request,) = read_trace(out)
    assert (request.prompt, request.output_tokens) == ("Hello", len("Good day"))  # a token a byte
    assert read_trace(out).manifest.source["replies_counted_by"] == str(tiny_model)


def test_bad_lines_are_left_out_or_end_the_import(tmp_path: Path, out: Path) -> None:
    path = write_lines(tmp_path, BURSTGPT, "1,x,4,3,7,y", "now,x,4,3,7,y", "2,x,4,3,7,y")
    printed = trace("import", path, "-o", out, code=3)
    assert "error: 1 lines can't be read and are left out" in printed
    assert read_trace(out).num_requests == 2
    strict = mistake("import", path, "-o", out, "--force", "--strict")
    assert strict == f"{path}:3: Timestamp is 'now': give a time as a number"
    assert read_trace(out).num_requests == 2


def test_units_and_blocks_can_be_told(tmp_path: Path, out: Path) -> None:
    path = write_records(tmp_path, mooncake(0, 40, hash_ids=[1, 2]), mooncake(5, 40, hash_ids=[1, 3]))
    trace("import", path, "-o", out, "--time-unit", "s", "--block-size", 20, "--format", "mooncake")
    assert [(r.arrival_ns, r.prefix_block) for r in read_trace(out)] == [(0, 20), (5_000_000_000, 20)]
    source = read_trace(out).manifest.source
    assert (source["time_unit"], source["block_size"]) == ("s", 20)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("--format csv", "format is 'csv': give one of cbatch, azure"),
        ("--format mooncake", "none of 5 lines can be read as mooncake"),
        ("--time-unit h", "time-unit is 'h'"),
        ("--block-size 4", "there are no prefix blocks in a Vidur trace"),
        ("--model smollm2", "--model counts the replies of ShareGPT conversations, and this is a Vidur trace"),
        ("--burstiness 2", "needs --request-rate"),
        ("--request-rate nan", "--request-rate is nan"),
        ("--window 5", "--window 5: give START:END"),
        ("--window 50:60", "is left to write: widen --window"),
        ("--limit 0", "--limit is 0"),
        ("--speedup nan", "--speedup is nan"),
        ("--scale-lengths 0", "--scale-lengths is 0"),
    ],
)
def test_mistakes_leave_no_file(vidur: Path, out: Path, options: str, message: str) -> None:
    assert message in mistake("import", vidur, "-o", out, *options.split())
    assert list(out.parent.iterdir()) == [vidur]


def test_inputs_that_are_none(tmp_path: Path, out: Path) -> None:
    assert "absent can't be read: No such file or directory" in mistake("import", tmp_path / "absent", "-o", out)
    assert "can't be read: Is a directory" in mistake("import", tmp_path, "-o", out)
    empty = write_lines(tmp_path, name="empty")
    assert "is empty" in mistake("import", empty, "-o", out)
