from __future__ import annotations

from datetime import date, datetime, timezone
from decimal import Decimal
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.errors import InputError, UsageError
from cbatch.inputs.where import Where
from cbatch.types import RowFault
from tests.fuzzing import fuzzing
from tests.inputs.reading import numbers, open_rows, read, read_files, read_values

ROWS: list[dict[str, Any]] = [
    {"n": 1, "x": 0.5, "lang": "en", "flag": True, "odd name": "a"},
    {"n": 2, "x": 1.5, "lang": "fr", "flag": False, "odd name": "b"},
    {"n": 3, "x": None, "lang": "de", "flag": None, "odd name": "c"},
    {"n": None, "x": 2.0, "lang": None, "flag": True, "odd name": None},
]

CONDITIONS: list[tuple[str, list[int]]] = [
    ("n > 1", [2, 3]),
    ("n >= 2 and x < 2", [2]),
    ("n = 2 OR lang == 'en'", [1, 2]),
    ("n <> 2", [1, 3]),
    ("not n = 2", [1, 3]),
    ("1 < n <= 3", [2, 3]),
    ("n == 2.0", [2]),
    ("n < 2.5", [1, 2]),
    ("n > -1", [1, 2, 3]),
    ("-n < -2", [3]),
    ("lang in ('en', \"fr\")", [1, 2]),
    ("lang in ['en']", [1]),
    ("lang not in ('en', 'fr')", [3]),
    ("n in (1, None)", [1, 4]),
    ("n in ()", []),
    ("'e' in lang", [1, 3]),
    ("'e' not in lang", [2]),
    ("flag", [1, 4]),
    ("not flag", [2]),
    ("flag == false", [2]),
    ("flag is null", [3]),
    ("flag IS NOT NULL", [1, 2, 4]),
    ("x + n > 2", [2]),
    ("n / 2 == 0.5", [1]),
    ("n * 2 - 1 >= 5", [3]),
    ("n / 0 > 1", [1, 2, 3]),
    ("len(lang) == 2", [1, 2, 3]),
    ("`odd name` = 'b'", [2]),
    ('field("odd name") = "b"', [2]),
    ("x is null and n == 3", [3]),
    ("n == 2 and null", []),
    ("n == 2 or null", [2]),
    ("(n > 1) == (x > 1)", [1, 2]),
    ("lang == 'it''s' or n == 1", [1]),
    ("n == 99999999999", []),
    ("n < 99999999999", [1, 2, 3]),
]


@pytest.fixture(scope="module", params=["int8", "int64", "uint32", "float32", "decimal"])
def table(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Path:
    kind = pa.decimal128(9, 2) if request.param == "decimal" else pa.type_for_alias(request.param)
    rows = [{**row, "n": None if row["n"] is None else Decimal(row["n"])} for row in ROWS]
    types = [("n", kind), ("x", pa.float64()), ("lang", pa.string()), ("flag", pa.bool_()), ("odd name", pa.string())]
    if request.param != "decimal":
        rows = ROWS
    path = tmp_path_factory.mktemp("where") / "rows.parquet"
    found = pa.Table.from_pylist(rows, pa.schema(types)).append_column("prompt", [["Hi"] * 4])
    pq.write_table(found, path, row_group_size=2)
    return path


@pytest.mark.parametrize(("where", "expected"), CONDITIONS)
def test_a_condition_chooses_the_same_rows_of_objects_and_of_columns(
    table: Path, where: str, expected: list[int]
) -> None:
    values = [{**row, "prompt": "Hi"} for row in ROWS]
    assert numbers(read_values(*values, where=where)) == expected
    assert numbers(read_files(table, where=where)) == expected


def test_a_field_that_a_row_lacks_is_null_and_a_string_is_a_prompt() -> None:
    assert numbers(read_values({"prompt": "a"}, {"prompt": "b", "x": 1}, "c", where="x is null")) == [1, 3]
    assert numbers(read_values("short", "longer", where="len(prompt) > 5")) == [2]


def test_fields_may_change_their_type_from_row_to_row() -> None:
    values = [1, 2.5, "3", None, True, 10**30, [1], {"a": 1}]
    items = read_values(*({"prompt": "Hi", "x": value} for value in values), where="x > 2")
    assert [(item.ref.number, getattr(item, "code", None)) for item in items] == [
        (2, None),
        (3, "where_failed"),
        (5, "where_failed"),
        (6, None),
        (7, "where_failed"),
        (8, "where_failed"),
    ]
    fault = items[1]
    assert isinstance(fault, RowFault)
    assert fault.message == "x is '3': text can't be compared with a number in the --where condition"
    assert fault.ref.carried == {"x": "3"}


def test_rows_that_cant_be_read_stay() -> None:
    items = read(b'{bad\n{"prompt": "Hi", "x": 1}\n\xff\n', where="x > 5")
    assert [getattr(item, "code", None) for item in items] == ["invalid_json", "invalid_utf8"]


@pytest.mark.parametrize(
    ("column", "where", "expected"),
    [
        (pa.array([date(2024, 5, 1), date(2024, 5, 2), None]), "c >= '2024-05-02'", [2]),
        (pa.array([1714564800, 1714608000], pa.timestamp("s")), "'2024-05-01 13:00:00' < c", [2]),
        (pa.array([datetime(2024, 5, 1, tzinfo=timezone.utc)]), "c == '2024-05-01'", [1]),
        (pa.array([datetime(2024, 5, 1, tzinfo=timezone.utc)]), "c == '2024-05-01T02:00:00+02:00'", [1]),
        (pa.array(["a", "b", "a"]).dictionary_encode(), "c == 'a'", [1, 3]),
        (pa.array(["a", None], pa.large_string()), "c == 'a' and 'a' in c", [1]),
        (pa.array([2**64 - 1, 1], pa.uint64()), "c > 1 and c > -1", [1]),
        (pa.array([0.1, 0.2], pa.float32()), "c == 0.1", [1]),
        (pa.array([[1], None]), "c is not null", [1]),
        (pa.array([{"a": 1}, None]), "c is null", [2]),
        (pa.array([None, None]), "c > 3 or c is null", [1, 2]),
        (pa.array([2**62 + 1, 0]), "c + 0.5 > 1", [1]),
    ],
)
def test_columns_of_other_types(tmp_path: Path, column: Any, where: str, expected: list[int]) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"c": column, "prompt": ["Hi"] * len(column)}), path)
    assert numbers(read_files(path, where=where)) == expected


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("missing > 1", r"has no column 'missing', only 'prompt', 'n', 'day': correct --where"),
        ("n == 'x'", r"column 'n' is of type int64: a number can't be compared with text: correct --where"),
        ("n", "a number is no condition by itself"),
        ("n and prompt == 'x'", "a number is no condition by itself"),
        ("len(n) > 1", "a number has no length"),
        ("prompt + 1 > 1", "no arithmetic is done with text"),
        ("'a' in n", "a number holds no text"),
        ("day > 'x'", r"column 'day' is of type date32\[day\]: 'x' isn't a value of type date32\[day\]"),
        ("day > 3", r"3 isn't a value|a time can't be compared|isn't a value of type"),
    ],
)
def test_what_a_column_cant_do_is_said_at_once(tmp_path: Path, where: str, message: str) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"prompt": ["Hi"], "n": [1], "day": [date(2024, 5, 1)]}), path)
    with pytest.raises(InputError, match=message):
        open_rows(path, where=where)


@pytest.mark.parametrize(
    ("where", "message"),
    [
        ("", "isn't a condition"),
        ("n >", "isn't a condition"),
        ("n; m", "isn't a condition"),
        ("n = (1", "isn't a condition"),
        ("f(n)", r"only len\(text\) and field\(\"odd name\"\) can be called"),
        ("n.real > 1", "Attribute isn't supported"),
        ("[n]", "a list, which may stand only behind in"),
        ("n == (1, 2)", "a list, which may stand only behind in"),
        ("n in (m, 1)", "a list of something else than numbers and strings"),
        ("n in m", "has in without a list"),
        ("n is 3", "has is before something else than null: write =="),
        ("n == 1j", "no field can be compared with"),
        ("n == 10000000000000000000000", "no field can be compared with"),
        ("n == f'{n}'", "isn't supported"),
        ("lambda: 1", "Lambda isn't supported"),
        ("__import__('os').system('x')", "isn't supported|can be called"),
        ("1 == 1", "names no field"),
        ("(" * 300 + "n" + ")" * 300, "isn't a condition"),
        ("n\0", "isn't a condition"),
        ("n > 1 or " * 2000 + "n", "18,001 characters: 10,000 are the most"),
    ],
)
def test_what_isnt_a_condition_is_refused(where: str, message: str) -> None:
    with pytest.raises(UsageError, match=message):
        Where(where)


def test_row_groups_that_cant_match_arent_read(tmp_path: Path) -> None:
    path = tmp_path / "rows.parquet"
    pq.write_table(pa.table({"prompt": ["Hi"] * 9, "n": list(range(9))}), path, row_group_size=3)
    condition = Where("n > 5 and prompt is not null").expression({"n": pa.int64(), "prompt": pa.string()})
    assert isinstance(condition, pc.Expression)
    assert numbers(read_files(path, where="n > 5")) == [7, 8, 9]
    data = path.read_bytes()
    first = pq.read_metadata(path).row_group(0).column(1)
    at = first.data_page_offset
    path.write_bytes(data[:at] + b"\xff" * 8 + data[at + 8 :])  # the first group can't be read
    assert numbers(read_files(path, where="n > 5")) == [7, 8, 9]


_CELLS = st.none() | st.booleans() | st.integers(-(2**70), 2**70) | st.floats() | st.text(max_size=3) | st.just([1])
_NAMES = ["n", "x", "`a b`", "field(", "len(", "null", "None", "True", "1", "2.5", "-1", "'a'", '"b"']
_SIGNS = [*"><()[],+-*/.:%=", ">=", "==", "!=", "<>", "and", "or", "not", "is", "in"]
_TOKENS = st.sampled_from(_NAMES + _SIGNS)


@fuzzing(0.1)
@given(
    st.lists(_TOKENS, max_size=9).map(" ".join)
    | st.sampled_from([where for where, _ in CONDITIONS])
    | st.text(max_size=30),
    st.lists(st.fixed_dictionaries({"prompt": st.just("Hi")}, optional={"n": _CELLS, "x": _CELLS}), max_size=4),
)
def test_fuzz_a_condition_chooses_rows_or_is_refused(part: int, where: str, values: list[dict[str, Any]]) -> None:
    try:
        found = Where(where)
    except UsageError:
        return
    del found
    lines = [{key: value for key, value in row.items() if value == value} for row in values]  # JSON has no NaN
    assert set(numbers(read_values(*lines, where=where))) <= set(range(1, len(lines) + 1))
