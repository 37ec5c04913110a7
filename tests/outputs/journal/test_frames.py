from __future__ import annotations

import pyarrow as pa
import pytest

from cbatch.outputs.journal.frames import (
    BATCHES,
    HEAD,
    SCHEMAS,
    batches_frame,
    checksum,
    parse_batches,
    parse_head,
    parse_schemas,
    schemas_frame,
)

RESULTS = pa.schema([("n", pa.int64()), ("s", pa.string())])
STEPS = pa.schema([("step", pa.int64())])
SCHEMA_OF = {"results": RESULTS, "steps": STEPS}


def rows(*numbers: int) -> pa.RecordBatch:
    return pa.RecordBatch.from_pydict({"n": list(numbers), "s": ["x" * n for n in numbers]}, schema=RESULTS)


def test_schemas_come_back() -> None:
    frame = schemas_frame(SCHEMA_OF)
    head = parse_head(frame[: HEAD.size])
    assert head is not None
    assert (head.kind, head.length) == (SCHEMAS, len(frame) - HEAD.size)
    assert head.checksum == checksum(SCHEMAS, frame[HEAD.size :])
    assert parse_schemas(frame[HEAD.size :]) == SCHEMA_OF


def test_rows_come_back_by_table_and_tables_without_any_are_left_out() -> None:
    steps = pa.RecordBatch.from_pydict({"step": [7]}, schema=STEPS)
    frame = batches_frame({"results": rows(1, 3), "steps": steps, "requests": rows()})
    head = parse_head(frame[: HEAD.size])
    assert head is not None
    assert head.kind == BATCHES
    found = parse_batches(frame[HEAD.size :], SCHEMA_OF)
    assert found["results"].equals(rows(1, 3))
    assert found["steps"].equals(steps)
    assert found.keys() == {"results", "steps"}


def test_rows_are_compressed() -> None:
    assert len(batches_frame({"results": rows(*[1_000] * 100)})) < 5_000


@pytest.mark.parametrize("data", [b"", b"cbj1", b"x" * HEAD.size])
def test_what_is_no_head_is_none(data: bytes) -> None:
    assert parse_head(data) is None


def test_rows_of_an_unknown_table_are_an_error() -> None:
    frame = batches_frame({"results": rows(1)})
    with pytest.raises(ValueError, match="whose schema isn't known"):
        parse_batches(frame[HEAD.size :], {"steps": STEPS})


def test_the_checksum_is_of_the_kind_too() -> None:
    assert checksum(SCHEMAS, b"x") != checksum(BATCHES, b"x")
