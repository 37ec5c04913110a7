"""The example files hold what they promise; the command line's tests run them."""

from __future__ import annotations

from pathlib import Path

from cbatch.clock import VirtualClock
from cbatch.inputs import read_rows
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowFault, RowKind

EXAMPLES = Path(__file__).parents[2] / "examples"

FAULTS = {
    2: "invalid_json",
    3: "invalid_json",
    4: "invalid_json",
    5: "invalid_json",
    6: "invalid_json",
    8: "invalid_utf8",
    9: "invalid_utf8",
    10: "wrong_type",
    11: "wrong_type",
    12: "wrong_type",
    13: "wrong_type",
    14: "empty_prompt",
    15: "empty_prompt",
    17: "missing_prompt",
    18: "ambiguous_prompt",
    19: "invalid_parameter",
    20: "invalid_parameter",
    21: "invalid_parameter",
    22: "invalid_parameter",
    23: "unsupported_url",
    24: "unsupported_method",
    25: "unsupported_content",
    26: "unsupported_parameter",
    27: "unsupported_parameter",
    28: "unsupported_parameter",
    30: "duplicate_id",
    31: "invalid_id",
    32: "invalid_id",
}


def read_example(name: str) -> list[Row | RowFault]:
    return list(read_rows([str(EXAMPLES / name)], defaults=SamplingParams(), clock=VirtualClock()))


def test_every_example_prompt_is_a_row() -> None:
    rows = read_example("prompts.jsonl")
    assert len(rows) == 31
    assert [row for row in rows if isinstance(row, RowFault)] == []
    assert {row.kind for row in rows if isinstance(row, Row)} == set(RowKind)


def test_the_faulty_rows_are_found_and_the_others_are_fine() -> None:
    rows = read_example("faults.jsonl")
    assert {row.ref.number: row.code for row in rows if isinstance(row, RowFault)} == FAULTS
    good = [row.ref.id for row in rows if isinstance(row, Row)]
    assert good == ["1", "good-1", "good-2", "good-3", "good-4", "good-5"]
