from __future__ import annotations

import csv
import gzip
import io
import os
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.clock import VirtualClock
from cbatch.errors import InputError
from cbatch.inputs import InputOptions, read_rows
from cbatch.inputs.formats import csv_records
from cbatch.inputs.formats.csv_types import column_type, typed
from cbatch.types import Row, RowFault
from tests.inputs.reading import DEFAULTS, broken_off, good, numbers, open_rows, read


def faults(data: bytes, form: str = "csv") -> dict[str, str]:
    """Messages by where."""
    return {item.ref.where: item.message for item in read(data, format=form) if isinstance(item, RowFault)}


def test_columns_have_types_and_an_empty_field_is_null(tmp_path: Path) -> None:
    path = tmp_path / "a.csv"
    path.write_bytes(
        b"\xef\xbb\xbfid,prompt,n_,x,zip,flag,empty,max_tokens\r\n"
        b'007,"a ""b"",\r\nc",1,1.5,01234,true,,5\r\n'
        b",5,-2,2,99999,false,,\r\n"
    )
    rows = open_rows(path)
    assert dict(rows.carried_types) == {
        "n_": pa.int64(),
        "x": pa.float64(),
        "zip": pa.string(),
        "flag": pa.bool_(),
        "empty": pa.string(),
    }
    first, second = good(list(rows))
    assert (first.ref.id, first.content, first.sampling.max_tokens) == ("007", 'a "b",\r\nc', 5)
    assert first.ref.carried == {"n_": 1, "x": 1.5, "zip": "01234", "flag": True, "empty": None}
    assert (second.ref.id, second.content, second.sampling.max_tokens) == ("2", "5", 100)
    assert second.ref.carried == {"n_": -2, "x": 2.0, "zip": "99999", "flag": False, "empty": None}
    assert [row.ref.where for row in (first, second)] == [f"{path}:2", f"{path}:4"]


@pytest.mark.parametrize(
    ("texts", "kind"),
    [
        (["1", "", "-5"], pa.int64()),
        (["0", "9223372036854775807"], pa.int64()),
        (["9223372036854775808"], pa.string()),
        (["1", "1.5"], pa.float64()),
        (["1e5", "-0.25"], pa.float64()),
        (["1.50"], pa.float64()),
        (["0.1234567890123456789"], pa.string()),
        (["0.30000000000000004"], pa.float64()),
        (["1e999"], pa.string()),
        (["007"], pa.string()),
        (["+1"], pa.string()),
        (["1_000"], pa.string()),
        (["nan"], pa.string()),
        (["٣"], pa.string()),
        ([" 1"], pa.string()),
        (["true", "False"], pa.bool_()),
        (["true", "1"], pa.string()),
        (["", ""], pa.null()),
    ],
)
def test_a_column_is_typed_only_where_its_texts_are_sure_to_mean_it(texts: list[str], kind: pa.DataType) -> None:
    assert column_type(texts) == kind


@given(st.lists(st.sampled_from(["", "1", "-7", "2.5", "1e3", "true", "x", "007"]) | st.text(max_size=4)))
def test_every_text_of_the_sample_fits_its_column(texts: list[str]) -> None:
    kind = column_type(texts)
    values = [typed(text, kind) for text in texts]
    assert pa.array(values, kind).to_pylist() == values


def test_a_later_value_that_doesnt_fit_stays_text() -> None:
    data = b"prompt,n_\n" + b"Hi,1\n" * 1000 + b"Hi,x\nHi,007\nHi,2.5\n"
    rows = good(read(data, format="csv"))
    assert [row.ref.carried["n_"] for row in rows[998:]] == [1, 1, "x", "007", "2.5"]


def test_bad_rows_cost_no_others() -> None:
    data = (
        b"prompt,a\n"
        b"one,1\n"
        b"short\n"
        b"long,2,3\n"
        b'"quote "inside",4\n'
        b"\xff\xfe,5\n"
        b"nul\0,6\n"
        b"\n"
        b'"open,7\n'
        b"nine,8\n"
        b'"ten",9\n'
        b'"never closed,10\n'
        b"last,11\n"
    )
    items = read(data, format="csv")
    rows = [(item.ref.where, item.content) for item in items if isinstance(item, Row)]
    assert rows == [("stdin:2", "one"), ("stdin:10", "nine"), ("stdin:11", "ten"), ("stdin:13", "last")]
    assert numbers(items) == list(range(1, 12))
    found = faults(data)
    assert found["stdin:3"] == "the row has 1 fields, and the header 2: make them match"
    assert found["stdin:4"] == "the row has 3 fields, and the header 2: make them match"
    assert "',' expected after '\"'): close each quoted field" in found["stdin:5"]
    assert found["stdin:6"] == "the row holds byte 0xff, which isn't valid UTF-8: save the file as UTF-8"
    assert "NUL" in found["stdin:7"]
    assert "isn't valid CSV" in found["stdin:9"]
    assert "unexpected end of data" in found["stdin:12"]


def test_a_quote_that_never_ends_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(csv_records, "MAX_RECORD", 1000)
    data = b'prompt\n"open\n' + b"x\n" * 2000 + b"y" * 1001 + b"\nz\n"
    items = read(data, format="csv")
    assert len(items) == 2003
    assert [(item.ref.number, item.code) for item in items if isinstance(item, RowFault)] == [
        (1, "invalid_csv"),
        (2002, "line_too_long"),
    ]


@pytest.mark.parametrize(
    ("data", "message"),
    [
        (b"", "is empty: give a first line with the names of the columns"),
        (b"\n\n", "is empty"),
        (b"prompt,a,prompt\n", r":1: two columns are named 'prompt'"),
        (b"prompt,,a\n", ":1: a column has no name"),
        (b'"prompt\n', ":1: the header can't be read: the row isn't valid CSV"),
        (b"\xff\xfep\0", ":1: the header can't be read: .*0xff"),
        (
            b"text,label\nHi,1\n",
            r"has no column prompt or messages, only 'text', 'label': name the one .*--prompt-column",
        ),
    ],
)
def test_a_file_without_a_usable_header_is_refused(tmp_path: Path, data: bytes, message: str) -> None:
    (tmp_path / "a.csv").write_bytes(data)
    with pytest.raises(InputError, match=message):
        open_rows(tmp_path / "a.csv")


def test_tabs_separate_tsv() -> None:
    (row,) = good(read(b'prompt\tx\n"a\tb"\t1,5\n', format="tsv"))
    assert (row.content, row.ref.carried) == ("a\tb", {"x": "1,5"})


def test_messages_are_json_text() -> None:
    data = b'messages\n"[{""role"": ""user"", ""content"": ""Hi""}]"\n[bad\nHi\n'
    first, second, third = read(data, format="csv")
    assert isinstance(first, Row)
    assert first.content == ({"role": "user", "content": "Hi"},)
    assert isinstance(second, RowFault)
    assert (second.code, second.message.split(":")[0]) == ("invalid_json", "Expecting value at column 2, found 'bad'")
    assert isinstance(third, RowFault)
    assert third.code == "wrong_type"


@given(
    st.lists(
        st.lists(st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])), min_size=2, max_size=2),
        max_size=5,
    )
)
def test_what_is_written_is_read(rows: list[list[str]]) -> None:
    text = io.StringIO(newline="")
    csv.writer(text, lineterminator="\n", quoting=csv.QUOTE_ALL).writerows([["text", "note"], *rows])
    items = read(text.getvalue().encode(), format="csv", template="{{ text or '' }}|{{ note or '' }}")
    found = [item.content for item in good(items)]
    assert found == ["|".join(row) if not _is_number(row) else found[at] for at, row in enumerate(rows)]


def _is_number(row: list[str]) -> bool:
    return any(column_type([text]) not in (pa.string(), pa.null()) for text in row)


def test_rows_before_a_cut_stay_good_and_the_rest_is_said(tmp_path: Path) -> None:
    packed = gzip.compress(b"prompt,n_\n" + b"".join(b"prompt %d,%d\n" % (n, n) for n in range(30_000)))
    path = tmp_path / "a.csv.gz"
    path.write_bytes(packed[: len(packed) // 2])
    items, message = broken_off(open_rows(path))
    assert numbers(items) == list(range(1, len(items) + 1))
    assert 5000 < len(good(items)) < 30_000
    assert f"can't be read past line {len(items) + 1}: " in message
    path.write_bytes(packed[:200])
    items, message = broken_off(open_rows(path))
    assert "can't be read" in message


def test_rows_of_a_pipe_are_handed_on_as_they_come_once_types_are_known() -> None:
    reading, writing = os.pipe()
    with open(reading, "rb") as stdin, open(writing, "wb", buffering=0) as writer:
        writer.write(b"prompt\n" + b"Hi\n" * 1000)
        options = InputOptions(format="csv")
        rows = read_rows(["-"], defaults=DEFAULTS, clock=VirtualClock(), stdin=stdin, options=options)
        assert [next(rows).ref.number for _ in range(1000)][-1] == 1000
        writer.write(b"Ho\n")
        assert next(rows).ref.number == 1001


def test_types_of_several_files_agree(tmp_path: Path) -> None:
    for name, values in {"a": "1", "b": "2.5", "c": ""}.items():
        (tmp_path / f"{name}.csv").write_text(f"prompt,x,y\nHi,{values},{values}\n")
    rows = open_rows(tmp_path)
    assert dict(rows.carried_types) == {"x": pa.float64(), "y": pa.float64()}
    assert [row.ref.carried["x"] for row in good(list(rows))] == [1.0, 2.5, None]
    (tmp_path / "d.csv").write_text("prompt,x\nHi,word\n")
    rows = open_rows(tmp_path)
    assert rows.carried_types["x"] == pa.string()
    assert [row.ref.carried["x"] for row in good(list(rows))] == ["1", "2.5", None, "word"]
