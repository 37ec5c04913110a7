from __future__ import annotations

import numpy as np

from cbatch.metrics.table import RequestTable, present
from cbatch.types import FinishReason
from tests.metrics.factories import make_fault, make_output


def make_table() -> RequestTable:
    """One that completed, one that ended without a slot, one that couldn't be run."""
    table = RequestTable()
    table.add(make_output([12, 14, 19], arrival_ns=2, enqueued_ns=3, admitted_ns=6))
    table.add(make_output(arrival_ns=4, finished_ns=9, reason=FinishReason.CANCELLED))
    table.add_fault(make_fault())
    return table


def test_a_row_a_request() -> None:
    table = make_table()
    assert len(table) == 3
    assert table.column("arrival_ns").tolist() == [2, 4, 0]
    assert table.completed.tolist() == [True, False, False]
    assert present(table.column("slip_ns")).tolist() == [1, 0]
    assert present(table.column("tpot_ns")).tolist() == [3.5]
    assert present(table.column("e2e_ns")).tolist() == [17, 5]


def test_what_never_got_a_slot_waits_until_it_ends() -> None:
    assert make_table().left_queue_ns.tolist() == [6, 9, 0]
    assert make_table().left_system_ns.tolist() == [19, 9, 0]


def test_times_of_a_hundred_days_are_exact() -> None:
    table, late = RequestTable(), 100 * 86_400 * 10**9 + 1
    table.add(make_output([late], arrival_ns=late - 1))
    assert table.column("finished_ns").astype(np.int64).tolist() == [late]


def test_a_column_is_a_copy() -> None:
    table = make_table()
    column = table.column("arrival_ns")
    table.add_fault(make_fault())
    assert column.size == 3
