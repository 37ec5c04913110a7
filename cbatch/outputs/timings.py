"""Lines of the tables of requests and of steps. Knows no results."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import fields
from operator import attrgetter
from typing import Any

import numpy as np
import pyarrow as pa

from cbatch.metrics import Attribution, RequestMetrics
from cbatch.outputs import schema
from cbatch.outputs.arrow import batch, struct_column
from cbatch.types import RequestOutput, RowRef

_METRICS = attrgetter(*(f.name for f in fields(RequestMetrics)))

step_line = attrgetter(*schema.STEPS.names)
"""A step's numbers, in the order of the table's columns: all that is kept of a `StepRecord`."""


def requests_batch(requests: Sequence[tuple[RowRef, RequestOutput]]) -> pa.RecordBatch:
    """Rows of the requests' table, one for each sample of a row; at least one."""
    columns: list[Any] = list(zip(*(_request_line(ref, output) for ref, output in requests), strict=True))
    times, parts = schema.REQUESTS.get_field_index("token_ns"), schema.REQUESTS.get_field_index("attribution")
    columns[times] = _lists(columns[times], schema.REQUESTS.types[times])
    columns[parts] = struct_column(schema.REQUESTS.types[parts], list(zip(*columns[parts], strict=True)))
    return batch(schema.REQUESTS, columns)


def steps_batch(lines: Sequence[tuple[int, ...]]) -> pa.RecordBatch:
    """Rows of the steps' table, of `step_line`s; at least one."""
    return batch(schema.STEPS, [pa.array(column) for column in np.asarray(lines, np.int64).T.copy()])


def _request_line(ref: RowRef, output: RequestOutput) -> tuple[Any, ...]:
    """In the order of the table's columns."""
    return (
        ref.number,
        ref.id,
        output.sample,
        output.request.arrival_ns,
        output.enqueued_ns,
        output.admitted_ns,
        output.first_token_ns,
        output.token_ns,
        output.finished_ns,
        output.request.prompt.size,
        output.cached_tokens,
        output.token_ids.size,
        output.finish_reason.value,
        output.slot,
        output.request.priority,
        output.preemptions,
        *_METRICS(RequestMetrics.of(output)),
        Attribution.of(output),
    )


def _lists(cells: Sequence[Any], kind: Any) -> Any:
    """A column of lists, of an array for each."""
    ends = np.cumsum([0, *(cell.size for cell in cells)])
    return pa.ListArray.from_arrays(pa.array(ends, pa.int32()), pa.array(np.concatenate(cells)), type=kind)
