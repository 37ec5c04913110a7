from __future__ import annotations

import io
import json
from itertools import islice
from pathlib import Path
from typing import Any, BinaryIO, cast

from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.inputs import read_rows
from cbatch.sampling import SamplingParams
from cbatch.types import Row, RowFault
from tests.inputs.reading import read, read_values

JSON = st.recursive(
    st.none()
    | st.booleans()
    | st.integers()
    | st.floats()
    | st.text(st.characters())
    | st.sampled_from(["user", "text"]),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=12,
)
FIELDS = (
    "prompt messages id custom_id method url body max_tokens max_completion_tokens temperature top_k seed stop "
    "stop_token_ids logit_bias ignore_eos priority n tools response_format role content type text other"
)
OBJECTS = st.dictionaries(
    st.sampled_from(FIELDS.split()),
    JSON | st.sampled_from(["POST", "/v1/completions", "Hi", [{"role": "user", "content": "x"}]]),
)
BYTES = st.binary(max_size=60).filter(lambda raw: b"\n" not in raw and bool(raw.strip()))


def writable(item: Row | RowFault) -> None:
    """What results must be able to hold: UTF-8 text and JSON."""
    ref = item.ref
    json.dumps([ref.id, ref.where, dict(ref.carried)], ensure_ascii=False, allow_nan=False).encode()
    if isinstance(item, RowFault):
        item.message.encode()
    else:
        json.dumps(item.content, ensure_ascii=False, allow_nan=False).encode()


@given(BYTES)
def test_any_line_of_bytes_is_one_item(raw: bytes) -> None:
    first, item, last = read(b'"a"\n' + raw + b'\n"b"\n')
    writable(item)
    assert isinstance(first, Row)
    assert isinstance(last, Row) or last.code == "duplicate_id"
    assert [i.ref.number for i in (first, item, last)] == [1, 2, 3]


@given(
    st.lists(
        JSON | OBJECTS | st.builds(lambda body: {"url": "/v1/completions", "method": "POST", "body": body}, OBJECTS)
    )
)
def test_rows_in_are_items_out(values: list[Any]) -> None:
    items = read_values(*values)
    for item in items:
        writable(item)
    assert [item.ref.number for item in items] == list(range(1, len(values) + 1))
    ids = [item.ref.id for item in items if isinstance(item, Row)]
    assert len(set(ids)) == len(ids)


@given(st.text(st.characters(exclude_categories=["Cs"]), min_size=1), st.booleans())
def test_a_prompt_comes_back_unchanged(prompt: str, ascii_only: bool) -> None:
    (item,) = read(json.dumps(prompt, ensure_ascii=ascii_only).encode())
    assert isinstance(item, Row)
    assert item.content == prompt


def test_numbers_count_rows_over_all_inputs_and_where_counts_lines(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_bytes(b'"a"\r\n\r\n{bad}\r\n')
    (tmp_path / "b.jsonl").write_bytes(b'\xef\xbb\xbf\n{"prompt": "b", "id": "x"}')
    sources = [str(tmp_path / "a.jsonl"), "-", str(tmp_path / "b.jsonl")]
    rows = read_rows(sources, defaults=SamplingParams(), clock=VirtualClock(), stdin=io.BytesIO(b'"stdin"\n'))
    seen = [(item.ref.number, item.ref.id, item.ref.where) for item in rows]
    assert seen == [
        (1, "1", f"{tmp_path}/a.jsonl:1"),
        (2, "2", f"{tmp_path}/a.jsonl:3"),
        (3, "3", "stdin:1"),
        (4, "x", f"{tmp_path}/b.jsonl:2"),
    ]


def test_a_row_arrives_when_it_is_read() -> None:
    clock = VirtualClock(5)
    rows = read_rows(["-"], defaults=SamplingParams(), clock=clock, stdin=io.BytesIO(b'"a"\n{bad\n'))
    clock.advance(10)
    assert next(rows).ref.arrival_ns == 15
    clock.advance(7)
    assert next(rows).ref.arrival_ns == 22


def test_a_second_row_of_an_id_is_a_fault_that_keeps_the_id() -> None:
    first, second = read_values({"prompt": "a", "id": 7}, {"prompt": "b", "custom_id": "7", "note": 1})
    assert isinstance(first, Row)
    assert isinstance(second, RowFault)
    assert (second.code, second.ref.id, second.ref.carried) == ("duplicate_id", "7", {"note": 1})
    assert second.message == "id '7' is taken by an earlier row: give each row its own"


def test_a_row_number_may_be_taken() -> None:
    _, second = read_values({"prompt": "a", "id": "2"}, "b")
    assert isinstance(second, RowFault)
    assert second.message.endswith("it is this row's number, so give the row an id of its own")


def test_a_faulty_row_leaves_its_id_to_a_good_one() -> None:
    first, second = read_values({"prompt": "", "id": "x"}, {"prompt": "b", "id": "x"})
    assert isinstance(first, RowFault)
    assert isinstance(second, Row)
    assert first.ref.id == second.ref.id == "x"


def test_a_row_that_cant_be_written_keeps_its_id_and_carries_nothing() -> None:
    half, deep, bad_id = read_values(
        {"id": "x", "prompt": "\ud800", "a": 1},
        {"id": "y", "prompt": "Hi", "a": json.loads("[" * 200 + "]" * 200)},
        {"id": "\ud800"},
    )
    assert isinstance(half, RowFault)
    assert (half.code, half.ref.id, half.ref.carried) == ("invalid_utf8", "x", {})
    assert isinstance(deep, RowFault)
    assert (deep.code, deep.ref.id, deep.ref.carried) == ("invalid_json", "y", {})
    assert isinstance(bad_id, RowFault)
    assert (bad_id.code, bad_id.ref.id) == ("invalid_utf8", "3")


def test_a_very_long_line_is_a_row() -> None:
    (item,) = read(json.dumps({"prompt": "x" * 3_000_000}).encode())
    assert isinstance(item, Row)
    assert len(item.content) == 3_000_000


class EndlessLines:
    """Stands for a stream that can't be held in memory."""

    def __init__(self) -> None:
        self.given = 0

    def read1(self, size: int = -1) -> bytes:
        self.given += 1
        return b'"Hi"\n'


def test_rows_are_read_only_as_they_are_asked_for() -> None:
    stream = EndlessLines()
    rows = read_rows(["-"], defaults=SamplingParams(), clock=VirtualClock(), stdin=cast(BinaryIO, stream))
    assert stream.given == 0
    assert len(list(islice(rows, 100))) == 100
    assert stream.given <= 101


@given(st.lists(st.none() | st.integers(0, 8) | st.sampled_from(["x", "01", 10**9]), max_size=10))
def test_an_id_given_or_not_is_that_of_the_first_row_that_has_it(ids: list[Any]) -> None:
    items = read_values(*({"prompt": "Hi", "id": row_id} for row_id in ids))
    names = [str(n if row_id is None else row_id) for n, row_id in enumerate(ids, 1)]
    assert [item.ref.id for item in items] == names
    assert [isinstance(item, Row) for item in items] == [name not in names[:n] for n, name in enumerate(names)]
