"""Azure, BurstGPT and Vidur."""

from __future__ import annotations

from pathlib import Path

from cbatch.traces.trace import TraceRequest
from tests.traces import files
from tests.traces.files import lint_messages, read, write_lines

SECOND = 10**9


def test_azure_2023(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path, files.AZURE, "2023-11-16 18:17:03.9799600,4808,10", "2023-11-16 18:17:04.0319601,3180,8"
    )
    requests, imported = read(path)
    assert requests == [
        TraceRequest(0, prompt_tokens=4808, output_tokens=10),
        TraceRequest(52_000_100, prompt_tokens=3180, output_tokens=8),
    ]
    assert (imported.format.name, imported.changes) == ("azure", {})


def test_azure_2024_with_zones_and_without_fractions_in_one_file(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path,
        files.AZURE,
        "2024-05-10 00:00:00.009930+00:00,2162,5",
        "2024-05-10 00:00:01+00:00,2399,6",
        "2024-05-10 00:00:01.5+00:00,76,15",
        "2024-05-10 00:00:02.0000001,76,15",
    )
    assert [request.arrival_ns for request in read(path)[0]] == [0, 990_070_000, 1_490_070_000, 1_990_070_100]
    mixed = lint_messages(path)["mixed_time_formats"]
    assert mixed.startswith("TIMESTAMP is written in 4 ways (1 are times with a zone and 6 fractional digits, ")
    assert "1 are times with a zone and no fraction" in mixed
    assert mixed.endswith("each is read exactly, the naive ones as UTC")


def test_burstgpt_leaves_failed_calls_out_and_counts_from_the_first(tmp_path: Path) -> None:
    path = write_lines(
        tmp_path,
        files.BURSTGPT,
        "5,ChatGPT,472,18,490,Conversation log",
        "45,ChatGPT,1087,0,1087,Conversation log",
        "118.5,GPT-4,417,276,693,API log",
    )
    requests, imported = read(path)
    assert requests == [
        TraceRequest(0, prompt_tokens=472, output_tokens=18),
        TraceRequest(113_500_000_000, prompt_tokens=417, output_tokens=276),
    ]
    assert (imported.format.name, imported.changes) == ("burstgpt", {"failed_calls_left_out": 1})
    found = lint_messages(path)
    assert found["failed_calls_left_out"] == "1 calls failed, with 0 Response tokens: left out"
    assert found["first_arrival"] == "the first arrival is at 5 s: arrivals are counted from it"
    assert found["unused_columns"] == "not used: 'Model', 'Total tokens', 'Log Type'"


def test_burstgpt_3_has_sessions(tmp_path: Path) -> None:
    header = files.BURSTGPT.replace("Timestamp,", "Timestamp,Session ID,Elapsed time,")
    path = write_lines(tmp_path, header, "5,s-1,2.5,ChatGPT,10,20,30,API log", "6,,2.5,ChatGPT,10,20,30,API log")
    requests, imported = read(path)
    assert [request.session_id for request in requests] == ["s-1", None]
    assert imported.format.name == "burstgpt"


def test_vidur(tmp_path: Path) -> None:
    path = write_lines(tmp_path, files.VIDUR, "0.0,374,44", "4.314579,396,109", "5.8926549999999995,91,16")
    requests, imported = read(path)
    assert [request.arrival_ns for request in requests] == [0, 4_314_579_000, 5_892_655_000]
    assert requests[1] == TraceRequest(4_314_579_000, prompt_tokens=396, output_tokens=109)
    assert (imported.format.name, imported.changes) == ("vidur", {})
