"""Mooncake, Bailian and AIPerf."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cbatch.traces.trace import TraceRequest
from tests.traces.files import lint_messages, mooncake, read, write_parquet, write_records


def bailian(chat_id: Any, parent: Any, timestamp: float = 0.0, **others: Any) -> dict[str, Any]:
    turn = {"chat_id": chat_id, "parent_chat_id": parent, "type": "text", "turn": 1}
    return {**turn, **mooncake(timestamp, 33, 7), "hash_ids": [1, 2, 3], **others}


def test_mooncake(tmp_path: Path) -> None:
    path = write_records(tmp_path, mooncake(1000, 600, 5, hash_ids=[46, 47]), mooncake(27482, 10, 5))
    requests, imported = read(path)
    assert requests == [
        TraceRequest(0, prompt_tokens=600, output_tokens=5, prefix_ids=(46, 47), prefix_block=512),
        TraceRequest(26_482_000_000, prompt_tokens=10, output_tokens=5),
    ]
    assert (imported.format.name, imported.changes) == ("mooncake", {})


def test_bailian(tmp_path: Path) -> None:
    path = write_records(tmp_path, bailian(55, -1), bailian(159, 55, 61.114))
    requests, imported = read(path)
    assert requests[1] == TraceRequest(
        61_114_000_000, prompt_tokens=33, output_tokens=7, session_id="55", prefix_ids=(1, 2, 3), prefix_block=16
    )
    assert (imported.format.name, imported.changes) == ("bailian", {})


def test_a_session_is_named_by_the_first_turn_that_can_be_told(tmp_path: Path) -> None:
    turns = [bailian(1, -1), bailian(2, 1), bailian(3, 2), bailian(9, 8), bailian(10, 9), bailian(4, -1)]
    path = write_records(tmp_path, *turns)
    assert [request.session_id for request in read(path)[0]] == ["1", "1", "1", "8", "8", "4"]


def test_a_chat_id_that_is_no_number_is_a_bad_line(tmp_path: Path) -> None:
    path = write_records(tmp_path, bailian(1, -1), bailian("two", 1), bailian(3, None))
    found = lint_messages(path)["bad_lines"]
    assert "chat_id is 'two': give a whole number" in found
    assert "parent_chat_id is null" in found


def test_aiperf_with_prompts(tmp_path: Path) -> None:
    columns = {
        "timestamp_start_unix_ms": [1_700_000_000_000, 1_700_000_000_250],
        "prompt": ["first", "second"],
        "input_tokens": [3, 4],
        "output_tokens": [6, 0],
        "total_hashes": [[1, 2], [1, 3]],
        "provided_session_id": ["a", None],
        "duration_e2e_ms": [10, 20],
    }
    requests, imported = read(write_parquet(tmp_path, columns))
    assert requests == [
        TraceRequest(0, "first", output_tokens=6, session_id="a"),
        TraceRequest(250_000_000, "second", output_tokens=1),
    ]
    assert (imported.format.name, imported.changes) == ("aiperf", {"zero_outputs_raised_to_1": 1})


def test_aiperf_with_lengths_and_blocks(tmp_path: Path) -> None:
    columns = {
        "timestamp_start_unix_ms": [0, 5],
        "input_tokens": [40, 20],
        "output_tokens": [6, 7],
        "total_hashes": [[1, 2, 3], [1, 2]],
        "block_size": [16, None],
        "poor_man_session_id": [7, 8],
    }
    path = write_parquet(tmp_path, columns)
    requests, imported = read(path)
    assert requests[0] == TraceRequest(
        0, prompt_tokens=40, output_tokens=6, session_id="7", prefix_ids=(1, 2, 3), prefix_block=16
    )
    assert (requests[1].prefix_ids, requests[1].prefix_block) == ((), None)
    assert imported.changes == {"prefixes_of_unknown_block_size_left_out": 1}
    assert "no block_size" in lint_messages(path)["prefixes_of_unknown_block_size_left_out"]
    given, _ = read(path, block_size=16)
    assert [request.prefix_block for request in given] == [16, 16]


@pytest.mark.parametrize(
    ("column", "value"), [("output_tokens", None), ("prompt", ""), ("timestamp_start_unix_ms", -1)]
)
def test_a_bad_row_of_aiperf_costs_only_itself(tmp_path: Path, column: str, value: Any) -> None:
    good = {"timestamp_start_unix_ms": 1, "prompt": "a", "output_tokens": 2}
    rows = [good, {**good, column: value}]
    path = write_parquet(tmp_path, {name: [row[name] for row in rows] for name in good})
    assert len(read(path)[0]) == 1
    assert f"{path}: row 2: {column} is " in lint_messages(path)["bad_lines"]
