from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbatch.errors import OutputError
from cbatch.outputs import json_lines_file
from cbatch.outputs.files import publish
from cbatch.outputs.json_lines_file import JsonLinesFile, line_groups
from cbatch.outputs.jsonl import JsonLines
from cbatch.outputs.results import Result
from cbatch.types import FinishReason, RowFault
from tests.metrics.factories import make_fault, make_logprobs, make_output, make_ref, spell

TRICKY = '", "response": null, "error": {"code": "x", "finish_reason": "length"}'


def results() -> list[Result]:
    logprobs = make_logprobs((-0.5, [(5, -0.25)]))
    return [
        Result.of_output(make_ref(1, {"finish_reason": "x", "response": None}), make_output([1], text=TRICKY)),
        Result.of_output(make_ref(2, row_id=TRICKY), make_output([1], reason=FinishReason.LENGTH, logprobs=logprobs)),
        Result.of_fault(RowFault(make_ref(3, {"x": 1}, TRICKY), "invalid_json", TRICKY)),
        Result.of_output(make_ref(40), make_output(reason=FinishReason.CANCELLED)),
        Result.of_output(make_ref(5), make_output(reason=FinishReason.ERROR, error="broke")),
        Result.of_fault(make_fault(6)),
    ]


def write(path: Path, batch: pa.RecordBatch) -> None:
    file = JsonLinesFile(path)
    file.add(pa.Table.from_batches([batch]))
    file.finish()
    publish(path)


@pytest.mark.parametrize("size", [1, 500, 1 << 20])
@pytest.mark.parametrize("chat", [True, False])
def test_what_was_written_is_read(tmp_path: Path, size: int, chat: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_lines_file, "GROUP_BYTES", size)
    batch = JsonLines("m", lambda _: chat, spell).batch(results())
    write(tmp_path / "r.jsonl", batch)
    groups = list(line_groups(tmp_path / "r.jsonl"))
    assert len(groups) == {1: 6, 500: 3}.get(size, 1) or size == 500
    assert pa.concat_tables(group.read() for group in groups).to_pylist() == batch.to_pylist()
    assert groups[0].read(["id", "row"]).column_names == ["id", "row"]


def test_a_file_without_lines_has_no_groups(tmp_path: Path) -> None:
    (tmp_path / "r.jsonl").touch()
    assert list(line_groups(tmp_path / "r.jsonl")) == []


BEGINNING = '{"id": "batch_req_1", "custom_id": "a", "response": '


@pytest.mark.parametrize(
    "line",
    [
        *("{}", "", "answers", '{"id": "batch_req_x", "custom_id": "a"}'),
        *(BEGINNING, f"{BEGINNING}{{}}}}", f'{BEGINNING}null, "error": null}}', f"{BEGINNING}null}}"),
        f'{{"id": "batch_req_{"9" * 30}", "custom_id": "a", "response": null, "error": {{"code": "x"}}}}',
    ],
)
def test_a_line_that_is_not_cbatch_s_is_an_output_error(tmp_path: Path, line: str) -> None:
    path = tmp_path / "r.jsonl"
    write(path, JsonLines("m", lambda _: True, spell).batch(results()))
    with path.open("a") as file:
        file.write(f"{line}\n")
    [group] = line_groups(path)
    with pytest.raises(OutputError, match=r"r\.jsonl holds something that cbatch didn't write, between bytes 0 and"):
        group.read(["row", "finish_reason"])


def test_half_a_line_is_an_output_error(tmp_path: Path) -> None:
    path = tmp_path / "r.jsonl"
    write(path, JsonLines("m", lambda _: True, spell).batch(results()))
    path.write_bytes(path.read_bytes()[:-3])
    [group] = line_groups(path)
    with pytest.raises(OutputError, match="that cbatch didn't write"):
        group.read(["row"])


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50)
@given(st.text(), st.text(), st.dictionaries(st.text(), st.text(), max_size=3), st.booleans())
def test_any_text_comes_back(tmp_path: Path, row_id: str, text: str, carried: dict[str, str], fails: bool) -> None:
    ref = make_ref(7, carried, row_id)
    result = Result.of_fault(RowFault(ref, text, text)) if fails else Result.of_output(ref, make_output([1], text=text))
    batch = JsonLines("m", lambda _: True, spell).batch([result])
    write(tmp_path / "r.jsonl", batch)
    [group] = line_groups(tmp_path / "r.jsonl")
    assert group.read().to_pylist() == batch.to_pylist()
