from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.traces.findings import LEVELS, duration
from cbatch.traces.importing import import_trace
from cbatch.traces.lint import lint
from tests.traces import files
from tests.traces.files import lint_messages, mooncake, write_lines, write_records


def test_a_seconds_file_that_counts_milliseconds_is_doubted_not_switched(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, *(f"{n * 250},10,10" for n in range(100)))
    found = lint_messages(path)
    assert found["time_unit"] == "arrived_at is read as seconds: 100 requests over 24,750 s, 0.004 a second"
    assert found["unit_doubt"].startswith("read as seconds, there are 0.004 requests a second: ")
    assert found["unit_doubt"].endswith("if arrived_at counts milliseconds, give --time-unit ms")
    assert "unit_doubt" not in lint_messages(path, time_unit="ms")


@pytest.mark.parametrize("step", [0.25, 0.0001])
def test_a_milliseconds_file_that_counts_seconds_is_doubted(tmp_path: Path, step: float) -> None:
    path = write_records(tmp_path, *(mooncake(round(n * step, 6)) for n in range(100)))
    assert lint_messages(path)["unit_doubt"].endswith("if timestamp counts seconds, give --time-unit s")
    assert "unit_doubt" not in lint_messages(path, time_unit="s")


def test_a_slow_trace_with_fractions_of_seconds_is_not_doubted(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, *(f"{n * 300}.25,10,10" for n in range(100)))
    assert "unit_doubt" not in lint_messages(path)


def test_whole_seconds_with_many_requests_each_are_ticks(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.BURSTGPT, *(f"{n // 4},GPT-4,5,5,10,API log" for n in range(100)))
    found = lint_messages(path)["quantised_times"]
    assert found.startswith("arrivals fall on ticks of 1 s, 4 requests at each time")
    assert "give --request-rate" in found


def test_arrivals_at_a_constant_rate_are_not_ticks(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, *(f"{n / 2},5,5" for n in range(100)))
    assert "quantised_times" not in lint_messages(path)


def test_blocks_of_another_size_are_told_with_the_size_that_fits(tmp_path: Path) -> None:
    rows = [mooncake(n, 100 + n, 5, hash_ids=list(range(-(-(100 + n) // 16)))) for n in range(40)]
    path = write_records(tmp_path, *rows)
    found = lint_messages(path)["block_mismatch"]
    assert found.startswith("read as 512-token blocks, 40 of 40 prompts have another number of hash_ids")
    assert f"{path}:1 has 7 for 100 tokens" in found
    assert found.endswith("blocks of 16 fit 40 prompts: give --block-size 16")
    fitting = lint_messages(path, block_size=16)
    assert fitting["block_size"] == "hash_ids holds 16-token blocks: all 40 prompts have as many as they need"


def test_a_few_odd_prompts_suggest_no_other_block_size(tmp_path: Path) -> None:
    rows = [mooncake(n, 600, 5, hash_ids=[1, 2] if n else [1, 2, 3]) for n in range(9)]
    found = lint_messages(write_records(tmp_path, *rows))["block_mismatch"]
    assert "1 of 9 prompts" in found
    assert "--block-size" not in found


def test_zero_lengths_and_times_that_go_back(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(5000, 0), mooncake(2500, 3, 0), mooncake(9000, 3, 0), mooncake(8000))
    found = lint_messages(path)
    assert found["zero_prompts"] == "1 requests have a prompt of 0 tokens: raised to 1, the least there can be"
    assert found["zero_outputs"] == "2 requests have an output of 0 tokens: raised to 1, the least there can be"
    assert found["times_go_back"] == (
        "2 requests arrive before one above them, by up to 2.5 s: they are sorted by arrival"
    )


def test_bad_lines_come_first_and_only_a_few_are_shown(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(0, 0), *(mooncake("x") for _ in range(2000)))
    findings = lint(path)
    assert (findings[0].level, findings[0].code) == ("error", "bad_lines")
    assert findings[0].message.startswith("2,000 lines can't be read and are left out: ")
    assert findings[0].message.count("timestamp is 'x'") == 5
    assert [finding.level for finding in findings] == sorted((f.level for f in findings), key=LEVELS.index)


def test_nothing_but_bad_lines_is_a_finding(tmp_path: Path) -> None:
    assert "bad_lines" in lint_messages(write_records(tmp_path, mooncake("x")))


def test_an_import_finds_the_same_on_its_way(tmp_path: Path) -> None:
    rows = (mooncake(n * 1000, 600 * n, 5 * n, hash_ids=[n]) for n in range(20))
    path = write_records(tmp_path, *rows, mooncake(None))
    imported = import_trace(path)
    assert len(imported.findings) == 1
    assert len(list(imported.requests)) == 20
    assert imported.findings == lint(path)


@pytest.mark.parametrize(
    ("ns", "text"), [(2_999_985_000, "3 s"), (250_000_000, "0.25 s"), (3_501_721_937_000, "3,502 s")]
)
def test_durations(ns: int, text: str) -> None:
    assert duration(ns) == text
