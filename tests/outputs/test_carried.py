from __future__ import annotations

import json
import math
from datetime import datetime
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.outputs import schema
from cbatch.outputs.carried import MAX_COLUMNS, RESULT_COLUMNS, Column, cells, is_storable, plan_columns
from tests.metrics.factories import make_ref


def plan(*rows: dict[str, Any]) -> dict[str, str]:
    return {c.name: c.kind for c in plan_columns([make_ref(i, row) for i, row in enumerate(rows, 1)])}


@pytest.mark.parametrize(
    ("values", "kind"),
    [
        ([True, False], "bool"),
        ([1, None, -(2**63)], "int64"),
        ([1, 2.5], "double"),
        ([None, "a"], "string"),
        ([True, 1], "json"),
        ([1, 2.5, "a"], "json"),
        ([1, 2**63], "json"),
        ([[1], [2]], "json"),
        ([{"a": 1}], "json"),
        ([None, None], "json"),
    ],
)
def test_a_columns_type_is_what_its_values_agree_on(values: list[Any], kind: str) -> None:
    assert plan(*({"x": v} for v in values)) == {"x": kind}
    assert plan(*({"x": v} for v in reversed(values))) == {"x": kind}


def test_columns_come_in_order_of_appearance() -> None:
    assert list(plan({"b": 1}, {"a": 1, "b": 2}, {"c": 1})) == ["b", "a", "c"]


def test_a_name_that_is_taken_gets_a_prefix() -> None:
    assert list(plan({"id": 1, "input_id": 2, "Error": 3})) == ["input_id", "input_input_id", "input_Error"]


def test_names_differ_in_more_than_case() -> None:
    assert list(plan({"text": 1, "Text": 2})) == ["text", "input_Text"]


def test_field_names_that_are_data_do_not_make_columns_without_end() -> None:
    rows = [{f"user-{i}": i} for i in range(MAX_COLUMNS + 1)]
    columns = plan_columns([make_ref(i, row) for i, row in enumerate(rows, 1)])
    assert len(columns) == MAX_COLUMNS
    assert cells(columns, rows[-1])["carried_json"] == json.dumps(rows[-1])


def test_reserved_names_are_the_schemas() -> None:
    assert tuple(schema.results(()).names) == RESULT_COLUMNS


def test_what_does_not_fit_its_column_goes_to_carried_json() -> None:
    columns = plan_columns([make_ref(1, {"n": 1, "s": "a"})])
    assert cells(columns, {"n": 2, "s": None}) == {"n": 2, "s": None, "carried_json": None}
    assert cells(columns, {"n": "two", "s": "b", "new": [1]}) == {
        "s": "b",
        "carried_json": '{"n": "two", "new": [1]}',
    }


def test_a_double_column_refuses_integers_that_it_would_round() -> None:
    column = Column("x", "x", "double")
    assert column.takes(2**53)
    assert not column.takes(2**53 + 1)
    assert not column.takes(True)


def typed(**types: pa.DataType) -> tuple[Column, ...]:
    return plan_columns([], types)


def test_a_typed_source_decides() -> None:
    types = {"a": pa.int32(), "b": pa.int64(), "c": pa.list_(pa.int8()), "id": pa.date32(), "d": pa.null()}
    columns = plan_columns([make_ref(1, {"x": 1, "a": "text"})], types)
    assert [(c.name, c.kind, c.type) for c in columns] == [
        ("a", "arrow", pa.int32()),
        ("b", "int64", None),
        ("c", "arrow", pa.list_(pa.int8())),
        ("input_id", "arrow", pa.date32()),
        ("x", "int64", None),
    ]


def test_columns_come_back_from_their_schema() -> None:
    columns = plan_columns([make_ref(1, {"id": 1, "é": [1]})], {"t": pa.timestamp("us", "UTC"), "s": pa.string()})
    assert schema.carried_columns(schema.results(columns)) == columns
    assert schema.carried_columns(schema.results(())) == ()


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 5),
        (pa.float32(), 0.5),
        (pa.float32(), math.nan),
        (pa.timestamp("us"), datetime(2025, 1, 31)),  # noqa: DTZ001
        (pa.decimal128(5, 2), Decimal("1.50")),
        (pa.list_(pa.int8()), [1, None]),
        (pa.struct([("a", pa.int8())]), {"a": 1}),
        (pa.timestamp("ns"), pa.scalar(2**60 + 1, pa.timestamp("ns"))),
        (pa.int32(), pa.scalar(5, pa.int8())),
        (pa.binary(), b"\xff"),
    ],
)
def test_a_typed_column_takes_what_it_can_hold(kind: pa.DataType, value: Any) -> None:
    [column] = typed(x=kind)
    assert column.takes(value)
    assert column.takes(None)


@pytest.mark.parametrize(
    ("kind", "value"),
    [
        (pa.int32(), 2**31),
        (pa.int32(), 1.5),
        (pa.int32(), "5"),
        (pa.int32(), True),
        (pa.float32(), 0.1),
        (pa.timestamp("s"), pa.scalar(1, pa.timestamp("ns"))),
        (pa.int8(), pa.scalar(300, pa.int32())),
        (pa.struct([("a", pa.int8())]), {"a": 1, "b": 2}),
        (pa.large_string(), b"bytes"),
        (pa.date32(), "2025-01-31"),
    ],
)
def test_what_a_typed_column_can_not_hold_is_not_lost(kind: pa.DataType, value: Any) -> None:
    found = cells(typed(x=kind), {"x": value})
    assert "x" not in found
    assert json.loads(found["carried_json"]).keys() == {"x"}


@pytest.mark.parametrize(
    "kind", [pa.null(), pa.month_day_nano_interval(), pa.dictionary(pa.int8(), pa.string()), pa.struct([]), pa.date64()]
)
def test_what_parquet_does_not_keep_has_no_typed_column(kind: pa.DataType) -> None:
    assert not is_storable(kind)
    assert not is_storable(pa.list_(kind))
    assert typed(x=kind) == ()


scalars = st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text()
values = st.recursive(scalars, lambda v: st.lists(v, max_size=3) | st.dictionaries(st.text(), v, max_size=3))
rows = st.dictionaries(st.sampled_from(["a", "A", "id", "", "é😀", "n\0l", "row"]), values, max_size=4)


def restore(columns: tuple[Column, ...], row: dict[str, Any]) -> dict[str, Any]:
    """The carried fields from a row of results; null and absent look the same."""
    found = dict(json.loads(row["carried_json"] or "{}"))
    for column in columns:
        value = row.get(column.name)
        if value is not None:
            assert column.field not in found
            found[column.field] = json.loads(value) if column.kind == "json" else value
    return without_nulls(found)


def without_nulls(row: dict[str, Any]) -> dict[str, Any]:
    return {k: v for k, v in row.items() if v is not None}


@given(st.lists(rows, max_size=3), rows)
def test_no_carried_value_is_lost(sample: list[dict[str, Any]], row: dict[str, Any]) -> None:
    columns = plan_columns([make_ref(i, r) for i, r in enumerate(sample, 1)])
    for carried in (*sample, row):
        assert restore(columns, cells(columns, carried)) == without_nulls(carried)
