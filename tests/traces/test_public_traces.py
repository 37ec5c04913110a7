"""The public files as they are, with no option given."""

from __future__ import annotations

import time
from itertools import pairwise

import pytest

from tests.traces.files import lint_messages, public_trace, read


@pytest.mark.parametrize(
    ("name", "form", "requests"),
    [
        ("azure_2023_code.csv", "azure", 8819),
        ("azure_2023_conv.csv", "azure", 19366),
        ("mooncake_conversation_600.jsonl", "mooncake", 600),
        ("mooncake_synthetic_600.jsonl", "mooncake", 600),
    ],
)
def test_every_request_is_imported_unchanged(name: str, form: str, requests: int) -> None:
    found, imported = read(public_trace(name))
    assert (imported.format.name, len(found), imported.changes) == (form, requests, {})
    assert found[0].arrival_ns == 0
    assert all(a.arrival_ns <= b.arrival_ns for a, b in pairwise(found))
    assert {finding.level for finding in imported.findings} <= {"info", "warning"}


@pytest.mark.parametrize("name", ["azure_2023_code.csv", "azure_2023_conv.csv"])
def test_lint_reports_azures_fractions(name: str) -> None:
    assert "naive times with 7 fractional digits" in lint_messages(public_trace(name))["time_format"]


@pytest.mark.parametrize("name", ["mooncake_conversation_600.jsonl", "mooncake_synthetic_600.jsonl"])
def test_lint_reports_mooncakes_milliseconds_and_blocks(name: str) -> None:
    found = lint_messages(public_trace(name))
    assert found["time_unit"].startswith("timestamp is read as milliseconds: 600 requests over ")
    assert found["block_size"] == "hash_ids holds 512-token blocks: all 600 prompts have as many as they need"
    assert "unit_doubt" not in found


def test_lint_reports_the_ticks_of_the_conversation_trace_alone() -> None:
    found = lint_messages(public_trace("mooncake_conversation_600.jsonl"))["quantised_times"]
    assert found.startswith("arrivals fall on ticks of 3 s, 8.82 requests at each time that has any")
    for name in ("mooncake_synthetic_600.jsonl", "azure_2023_code.csv", "azure_2023_conv.csv"):
        assert "quantised_times" not in lint_messages(public_trace(name))


def test_an_import_takes_well_under_a_second() -> None:
    path = public_trace("azure_2023_conv.csv")
    started = time.process_time()
    read(path)
    assert time.process_time() - started < 1
