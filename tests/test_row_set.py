from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from cbatch.row_set import RowSet

NUMBERS = st.lists(st.tuples(st.integers(1, 200), st.booleans()))


@given(NUMBERS)
def test_as_a_set(changes: list[tuple[int, bool]]) -> None:
    rows, expected = RowSet(), set[int]()
    for number, added in changes:
        if added:
            assert rows.add(number) == (number not in expected)
            expected.add(number)
        else:
            rows.discard(number)
            expected.discard(number)
    assert list(rows) == sorted(expected)
    assert len(rows) == len(expected)
    assert all((number in rows) == (number in expected) for number in range(1, 220))


@given(st.sets(st.integers(1, 100)), st.integers(1, 110), st.integers(0, 110))
def test_ranges(numbers: set[int], start: int, length: int) -> None:
    assert RowSet(numbers).holds_all(start, start + length) == numbers.issuperset(range(start, start + length))


def test_a_full_range() -> None:
    rows = RowSet(range(1, 1000))
    assert rows.holds_all(1, 1000)
    assert not rows.holds_all(1, 1001)
    rows.discard(512)
    assert not rows.holds_all(1, 1000)
    assert rows.holds_all(513, 1000)
