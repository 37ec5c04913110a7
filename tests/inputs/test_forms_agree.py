"""Every form gives the rows that JSONL gives."""

from __future__ import annotations

import bz2
import csv
import gzip
import io
import json
import lzma
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.feather as feather
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbatch.types import Row, RowFault, RowRef
from tests.inputs.reading import Items, read, read_files

SCHEMA = pa.schema(
    {
        "prompt": pa.string(),
        "id": pa.string(),
        "max_tokens": pa.int64(),
        "temperature": pa.float64(),
        "score": pa.int64(),
        "weight": pa.float64(),
        "label": pa.string(),
        "flag": pa.bool_(),
    }
)
TEXT = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\0\r"), max_size=12)
ROWS = st.lists(
    st.fixed_dictionaries(
        {
            "prompt": TEXT.map("p{}".format),  # else CSV would read some as numbers
            "id": st.none() | st.sampled_from(["a", "b", "007"]),
            "max_tokens": st.none() | st.integers(-1, 5),
            "temperature": st.none() | st.sampled_from([0.0, 0.5, 1.25]),
            "score": st.none() | st.integers(-(2**63), 2**63 - 1),
            "weight": st.none() | st.floats(allow_nan=False, allow_infinity=False, width=32),
            "label": st.none() | st.sampled_from(["x", "y z", "a,b\nc"]),
            "flag": st.none() | st.booleans(),
        }
    ).map(lambda row: {name: row[name] for name in SCHEMA.names}),
    min_size=1,
    max_size=6,
)


def jsonl(rows: list[dict[str, Any]]) -> bytes:
    return b"".join(json.dumps(row).encode() + b"\n" for row in rows)


def delimited(rows: list[dict[str, Any]], delimiter: str) -> bytes:
    text = io.StringIO(newline="")
    writer = csv.writer(text, delimiter=delimiter)
    writer.writerow(SCHEMA.names)
    for row in rows:
        cells = [row[name] for name in SCHEMA.names]
        writer.writerow("" if cell is None else json.dumps(cell) if isinstance(cell, bool) else cell for cell in cells)
    return text.getvalue().encode()


def parquet(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    pq.write_table(pa.Table.from_pylist(rows, SCHEMA), sink, row_group_size=2)
    return sink.getvalue()


def arrow(rows: list[dict[str, Any]], opened: Callable[..., Any]) -> bytes:
    sink = io.BytesIO()
    with opened(sink, SCHEMA) as writer:
        writer.write_table(pa.Table.from_pylist(rows, SCHEMA), 2)
    return sink.getvalue()


def feathered(rows: list[dict[str, Any]]) -> bytes:
    sink = io.BytesIO()
    feather.write_feather(pa.Table.from_pylist(rows, SCHEMA), sink)
    return sink.getvalue()


FORMS: dict[str, Callable[[list[dict[str, Any]]], bytes]] = {
    ".json": lambda rows: json.dumps(rows, indent=1).encode(),
    ".csv": lambda rows: delimited(rows, ","),
    ".tsv": lambda rows: delimited(rows, "\t"),
    ".parquet": parquet,
    ".arrow": lambda rows: arrow(rows, pa.ipc.new_file),
    ".ipc": lambda rows: arrow(rows, pa.ipc.new_stream),
    ".feather": feathered,
    ".jsonl.gz": lambda rows: gzip.compress(jsonl(rows)),
    ".jsonl.bz2": lambda rows: bz2.compress(jsonl(rows)),
    ".json.xz": lambda rows: lzma.compress(json.dumps(rows).encode()),
}


def comparable(items: Items) -> list[Any]:
    """Without where rows were found, and what CSV can't tell."""

    def bare(ref: RowRef) -> RowRef:
        return replace(ref, where="")

    return [
        replace(item, ref=bare(item.ref)) if isinstance(item, Row) else (bare(item.ref), item.code, item.message)
        for item in items
        if isinstance(item, (Row, RowFault))
    ]


@pytest.mark.parametrize("form", FORMS)
@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=ROWS,
    options=st.fixed_dictionaries(
        {},
        optional={
            "where": st.sampled_from(["score > 0 or score is null", "label == 'x' or flag", "weight < 0.5"]),
            "offset": st.integers(0, 2),
            "sample": st.just(0.7),
            "id_column": st.just("label"),
            "prompt_column": st.just("label"),
        },
    ),
)
def test_a_form_gives_the_same_rows_as_jsonl(
    tmp_path: Path, form: str, rows: list[dict[str, Any]], options: dict[str, Any]
) -> None:
    path = tmp_path / f"rows{form}"
    path.write_bytes(FORMS[form](rows))
    assert comparable(read_files(path, **options)) == comparable(read(jsonl(rows), **options))
