from __future__ import annotations

import json

from cbatch.metrics.kv_table import WAYS, KVTable, KVTotals
from tests.metrics.factories import make_step


def cells(used: int, reserved: int, static: int, shared: int = 0) -> dict[str, int]:
    return {
        "kv_used_cells": used,
        "kv_reserved_cells": reserved,
        "kv_static_cells": static,
        "kv_shared_cells": shared,
        "kv_total_cells": 100,
    }


def table(*records: dict[str, int], bytes_per_token: float | None = None) -> KVTable:
    totals = KVTotals()
    for record in records:
        totals.add(make_step(**record))
    return totals.table(bytes_per_token)


TWO_STEPS = (
    {"start_ns": 0, "end_ns": 3, "slots_busy": 2, **cells(used=10, reserved=20, static=50, shared=4)},
    {"start_ns": 5, "end_ns": 6, "slots_busy": 1, **cells(used=6, reserved=8, static=25)},
)


def test_peaks_are_of_one_step_each() -> None:
    ways = table(*TWO_STEPS).ways
    assert [ways[name].peak_cells for name in WAYS] == [50, 20, 10, 6]


def test_means_weigh_by_the_time_of_steps() -> None:
    ways = table(*TWO_STEPS).ways
    assert [ways[name].mean_cells for name in WAYS] == [175 / 4, 68 / 4, 36 / 4, 24 / 4]


def test_a_cell_that_sequences_share_holds_more_than_one_token() -> None:
    ways = table(*TWO_STEPS).ways
    assert [ways[name].tokens_per_cell for name in WAYS] == [36 / 175, 36 / 68, 1, 36 / 24]


def test_sequences_are_as_many_as_the_memory_would_hold() -> None:
    ways = table(*TWO_STEPS).ways
    assert [ways[name].sequences for name in WAYS] == [100 * 7 / 175, 100 * 7 / 68, 100 * 7 / 36, 100 * 7 / 24]


def test_bytes_are_cells_times_the_bytes_of_a_token() -> None:
    record = table(*TWO_STEPS, bytes_per_token=2.5).to_dict()
    assert json.loads(json.dumps(record, allow_nan=False)) == record
    assert (record["total_cells"], record["total_bytes"], record["bytes_per_token"]) == (100, 250, 2.5)
    assert record["pooled"] == {
        "peak_cells": 10,
        "peak_bytes": 25,
        "mean_cells": 9,
        "mean_bytes": 22.5,
        "tokens_per_cell": 1,
        "sequences": 700 / 36,
    }


def test_without_the_bytes_of_a_token_there_are_cells_alone() -> None:
    found = table(*TWO_STEPS)
    assert found.bytes_of(10) is None
    assert found.to_dict()["total_bytes"] is None


def test_without_steps_nothing_is_made_up() -> None:
    found = table(bytes_per_token=2.0)
    assert found.total_cells == 0
    assert found.bytes_of(None) is None
    for way in found.ways.values():
        assert (way.peak_cells, way.mean_cells, way.tokens_per_cell, way.sequences) == (0, None, None, None)
