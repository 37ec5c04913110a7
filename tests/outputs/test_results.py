from __future__ import annotations

import errno
import math
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings

from cbatch.clock import VirtualClock
from cbatch.outputs import WriteError, results
from cbatch.outputs.carried import plan_columns
from cbatch.outputs.results import ParquetResults, Result
from cbatch.types import FinishReason, RowFault
from tests.metrics.factories import make_fault, make_logprobs, make_output, make_ref, make_samples
from tests.outputs.test_carried import restore, rows, without_nulls


def read(directory: Path) -> list[dict[str, Any]]:
    return [row for part in sorted(directory.glob("results/part-*")) for row in pq.read_table(part).to_pylist()]


def test_a_finished_row(tmp_path: Path) -> None:
    ref = make_ref(7, {"label": "spam"}, "seven")
    writer = ParquetResults(tmp_path, [ref], VirtualClock())
    output = make_output([1, 2], prompt_tokens=5, text="héllo 😀", dropped_tokens=3)
    output = replace(output, request=replace(output.request, truncated_tokens=4))
    writer.add(Result.of_output(ref, output))
    writer.close()
    assert read(tmp_path) == [
        {
            "row": 7,
            "id": "seven",
            "label": "spam",
            "prompt_tokens": 5,
            "truncated_tokens": 4,
            "output_text": "héllo 😀",
            "output_tokens": 2,
            "dropped_tokens": 3,
            "finish_reason": "stop",
            "error_code": None,
            "error": None,
            "samples": None,
            "logprobs": None,
            "prompt_logprobs": None,
            "carried_json": None,
        }
    ]


def test_logprobs_are_of_the_output_and_of_the_prompt(tmp_path: Path) -> None:
    output = make_output(
        [1, 2],
        prompt_tokens=2,
        logprobs=make_logprobs((-0.5, [(5, -0.25)]), (-1.0, [(1, -1.0)])),
        prompt_logprobs=make_logprobs((math.nan, [(-1, math.nan)]), (-3.0, [(8, -0.125)])),
    )
    writer = ParquetResults(tmp_path, [], VirtualClock())
    writer.add(Result.of_output(make_ref(1), output))
    writer.add(Result.of_output(make_ref(2), make_output([1])))
    writer.close()
    first, second = read(tmp_path)
    assert first["logprobs"] == [
        {"token_id": 0, "logprob": -0.5, "top": [{"token_id": 5, "logprob": -0.25}]},
        {"token_id": 1, "logprob": -1.0, "top": [{"token_id": 1, "logprob": -1.0}]},
    ]
    assert first["prompt_logprobs"] == [
        {"token_id": 0, "logprob": None, "top": []},
        {"token_id": 0, "logprob": -3.0, "top": [{"token_id": 8, "logprob": -0.125}]},
    ]
    assert second["logprobs"] is second["prompt_logprobs"] is None


def test_samples_stand_together_in_one_row(tmp_path: Path) -> None:
    done = make_output([1, 2], text="a", logprobs=make_logprobs((-0.5, []), (-1.5, [])))
    broken = make_output([1], text="b", reason=FinishReason.ERROR, error="llama_decode gave -3")
    row = make_samples(done, broken)
    writer = ParquetResults(tmp_path, [], VirtualClock())
    writer.add(Result.of_output(make_ref(1), row))
    writer.close()
    [found] = read(tmp_path)
    assert (found["output_text"], found["output_tokens"], found["finish_reason"]) == ("a", 2, "stop")
    assert (found["error_code"], found["error"]) == (None, None)
    places = [{"token_id": 0, "logprob": -0.5, "top": []}, {"token_id": 1, "logprob": -1.5, "top": []}]
    assert found["logprobs"] == places
    assert found["samples"] == [
        {
            "sample": 0,
            "output_text": "a",
            "output_tokens": 2,
            "finish_reason": "stop",
            "error": None,
            "mean_logprob": -1.0,
            "logprobs": places,
        },
        {
            "sample": 1,
            "output_text": "b",
            "output_tokens": 1,
            "finish_reason": "error",
            "error": "llama_decode gave -3",
            "mean_logprob": None,
            "logprobs": None,
        },
    ]


def test_a_row_fails_with_its_first_sample(tmp_path: Path) -> None:
    broken = make_output([1], text="half", reason=FinishReason.ERROR, error="broke")
    writer = ParquetResults(tmp_path, [], VirtualClock())
    writer.add(Result.of_output(make_ref(1), make_samples(broken, make_output([1], text="whole"))))
    writer.close()
    [found] = read(tmp_path)
    assert (found["error_code"], found["output_text"]) == ("generation_failed", "half")
    assert [sample["output_text"] for sample in found["samples"]] == ["half", "whole"]


def test_rows_that_ended_badly_say_why(tmp_path: Path) -> None:
    writer = ParquetResults(tmp_path, [], VirtualClock())
    broken = make_output([1], reason=FinishReason.ERROR, error="llama_decode gave -3", text="half")
    writer.add(Result.of_output(make_ref(1), broken))
    writer.add(Result.of_output(make_ref(2), make_output(reason=FinishReason.CANCELLED)))
    writer.add(Result.of_fault(make_fault(3, {"label": 1})))
    writer.close()
    found = read(tmp_path)
    assert [r["finish_reason"] for r in found] == ["error", "cancelled", "error"]
    assert [r["error_code"] for r in found] == ["generation_failed", "cancelled", "empty_prompt"]
    assert found[0]["error"].endswith(": llama_decode gave -3")
    assert found[0]["output_text"] == "half"
    assert "run it again" in found[1]["error"]
    assert found[2]["error"].endswith(": the prompt is empty: give some text")
    assert found[2]["output_text"] is None
    assert found[2]["prompt_tokens"] is None
    assert found[2]["carried_json"] == '{"label": 1}'


def test_a_message_with_an_undecodable_file_name_can_be_written(tmp_path: Path) -> None:
    fault = RowFault(make_ref(), "invalid_json", "in a\udcff.jsonl")
    assert Result.of_fault(fault).error == "prompts.jsonl:1: in a\\udcff.jsonl"


def test_parts_are_complete_as_soon_as_they_are_full(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PART_ROWS", 3)
    writer = ParquetResults(tmp_path, [], VirtualClock())
    for number in range(1, 8):
        writer.add(Result.of_fault(make_fault(number)))
    names = sorted(p.name for p in (tmp_path / "results").iterdir())
    assert names == [".part-00002.parquet.tmp", "part-00000.parquet", "part-00001.parquet"]
    writer.close()
    assert [r["row"] for r in read(tmp_path)] == list(range(1, 8))


def test_full_parts_are_not_followed_by_an_empty_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(results, "PART_ROWS", 3)
    writer = ParquetResults(tmp_path, [], VirtualClock())
    for number in range(3):
        writer.add(Result.of_fault(make_fault(number)))
    writer.close()
    writer.close()
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["part-00000.parquet"]


def names(directory: Path) -> list[str]:
    return sorted(p.name for p in (directory / "results").iterdir())


def test_a_part_is_complete_some_time_after_its_first_row(tmp_path: Path) -> None:
    clock = VirtualClock()
    writer = ParquetResults(tmp_path, [], clock)
    clock.advance(2 * results.PART_NS)  # nothing was added, so nothing can be lost
    writer.keep()
    writer.add(Result.of_fault(make_fault(1)))
    clock.advance(results.PART_NS - 1)
    writer.add(Result.of_fault(make_fault(2)))
    writer.keep()
    assert names(tmp_path) == [".part-00000.parquet.tmp"]
    clock.advance(1)
    writer.keep()
    writer.keep()
    assert names(tmp_path) == ["part-00000.parquet"]
    writer.add(Result.of_fault(make_fault(3)))
    clock.advance(results.PART_NS)
    writer.add(Result.of_fault(make_fault(4)))
    assert names(tmp_path) == ["part-00000.parquet", "part-00001.parquet"]
    writer.close()
    assert [r["row"] for r in read(tmp_path)] == [1, 2, 3, 4]


def test_a_full_disk_costs_one_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(*_: Any) -> None:
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr(results, "PART_ROWS", 3)
    monkeypatch.setattr(results, "GROUP_ROWS", 2)
    writer = ParquetResults(tmp_path, [], VirtualClock())
    for number in range(1, 5):
        writer.add(Result.of_fault(make_fault(number)))
    monkeypatch.setattr(pq.ParquetWriter, "write_table", refuse)
    with pytest.raises(WriteError) as caught:
        writer.add(Result.of_fault(make_fault(5)))
    part = tmp_path / "results" / "part-00001.parquet"
    assert str(caught.value).startswith(f"{part} can't be written: No space left on device. What has its final name in")
    with pytest.raises(WriteError, match="takes no more rows"):
        writer.add(Result.of_fault(make_fault(6)))
    writer.close()
    assert names(tmp_path) == ["part-00000.parquet"]
    assert [r["row"] for r in read(tmp_path)] == [1, 2, 3]


def test_an_empty_run_has_one_part_without_rows(tmp_path: Path) -> None:
    ParquetResults(tmp_path, [], VirtualClock()).close()
    assert [p.name for p in (tmp_path / "results").iterdir()] == ["part-00000.parquet"]
    assert read(tmp_path) == []


@settings(deadline=None, max_examples=30, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(rows, rows, rows)
def test_carried_values_come_back_from_parquet(
    tmp_path: Path, first: dict[str, Any], second: dict[str, Any], later: dict[str, Any]
) -> None:
    sample = [make_ref(1, first), make_ref(2, second)]
    writer = ParquetResults(tmp_path, sample, VirtualClock())
    for ref in (*sample, make_ref(3, later)):
        writer.add(Result.of_fault(RowFault(ref, "x", "x")))
    writer.close()
    columns = plan_columns(sample)
    assert [restore(columns, row) for row in read(tmp_path)] == [without_nulls(r) for r in (first, second, later)]
