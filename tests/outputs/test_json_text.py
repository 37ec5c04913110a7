from __future__ import annotations

import json
import math
from datetime import date, datetime, time, timedelta, timezone
from decimal import Decimal
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given

from cbatch.outputs.json_text import plain, to_json
from tests.outputs.test_carried import values


@given(values)
def test_json_values_stay(value: Any) -> None:
    assert json.loads(to_json(value)) == value


def test_text_is_not_escaped() -> None:
    assert to_json({"é": "😀"}) == '{"é": "😀"}'


@pytest.mark.parametrize(
    ("value", "form"),
    [
        (math.nan, "nan"),
        (-math.inf, "-inf"),
        ([1, math.inf], [1, "inf"]),
        (Decimal("1.50"), "1.50"),
        (date(2025, 1, 31), "2025-01-31"),
        (datetime(2025, 1, 31, 12, tzinfo=timezone.utc), "2025-01-31T12:00:00+00:00"),
        (time(1, 2), "01:02:00"),
        (timedelta(seconds=90), "0:01:30"),
        (b"caf\xc3\xa9", "café"),
        (b"a\xff", "a\\xff"),
        ({1: (2, 3)}, {"1": [2, 3]}),
        (pa.scalar(None, pa.int32()), None),
        (pa.scalar(5, pa.int8()), 5),
        (pa.scalar(math.nan, pa.float32()), "nan"),
        (pa.scalar(2**60 + 1, pa.timestamp("ns")), "2006-07-14T23:58:24.606846977"),
        (pa.scalar([1, None], pa.list_(pa.timestamp("ns"))), ["1970-01-01T00:00:00.000000001", None]),
        (pa.scalar({"a": [Decimal("1.5")]}, pa.struct([("a", pa.list_(pa.decimal128(3, 1)))])), {"a": ["1.5"]}),
        (pa.scalar([("k", b"v")], pa.map_(pa.string(), pa.binary())), [["k", "v"]]),
        (pa.scalar([1, 2], pa.list_(pa.int8(), 2)), [1, 2]),
        (pa.scalar(253402300800000000, pa.timestamp("us")), "10000-01-01T00:00:00.000000"),
        (pa.scalar(253402300800000000, pa.timestamp("us", "UTC")), "10000-01-01T00:00:00.000000Z"),
        (pa.scalar(-62135596800000001, pa.timestamp("us")), "0000-12-31T23:59:59.999999"),
        (pa.scalar(2**62, pa.timestamp("us")), "4611686018427387904 us"),
        (pa.scalar(2**62, pa.timestamp("s", "Europe/Berlin")), "4611686018427387904 s"),
        (pa.scalar(0, pa.timestamp("us", "Not/There")), "1970-01-01T00:00:00.000000Z"),
        (pa.scalar(0, pa.timestamp("ns", "Not/There")), "1970-01-01T00:00:00.000000000Z"),
        (pa.scalar(3_000_000, pa.date32()), "10183-09-21"),
        (pa.scalar(2**31 - 1, pa.date32()), "2147483647 days"),
        (pa.scalar(2**60, pa.date64()), "1152921504606846976 ms"),
        (pa.scalar(1500, pa.time64("ns")), "00:00:00.000001500"),
        (pa.scalar(1500, pa.duration("ns")), "0:00:00.000001500"),
        (pa.scalar(-1500, pa.duration("ns")), "-1 day, 23:59:59.999998500"),
        (pa.scalar(2**62, pa.duration("s")), "4611686018427387904 s"),
        (pa.scalar([2**62], pa.list_(pa.timestamp("us"))), ["4611686018427387904 us"]),
        (pa.array([2**62], pa.timestamp("us")).dictionary_encode()[0], "4611686018427387904 us"),
    ],
)
def test_what_json_lacks_gets_a_form(value: Any, form: Any) -> None:
    assert plain(value) == form
    assert json.loads(to_json({"x": value})) == {"x": form}
