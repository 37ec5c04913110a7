from __future__ import annotations

import tracemalloc

from hypothesis import given
from hypothesis import strategies as st

from cbatch.inputs.ids import TakenIds

NUMBERS = st.integers(-3, 40).map(str)
ODD = st.sampled_from(["00", "01", "٣", "²", "+1", " 1", "1 ", "1_0", "1.0", "9" * 18, "9" * 19, "9" * 5000, "é", "x"])


@given(st.lists(st.tuples(NUMBERS | ODD, st.integers(0, 3))))
def test_an_id_is_taken_once_as_text(claims: list[tuple[str, int]]) -> None:
    ids, seen, row = TakenIds(), set[str](), 0
    for row_id, advance in claims:
        row += advance
        assert ids.claim(row_id, row) == (row_id not in seen)
        seen.add(row_id)


def _bytes_each(*ids: str) -> float:
    taken = TakenIds()
    tracemalloc.start()
    for row, row_id in enumerate(ids, 1):
        assert taken.claim(row_id, row)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / len(ids)


def test_row_numbers_and_the_like_take_a_bit_each() -> None:
    assert _bytes_each(*map(str, range(20_000))) < 0.2


def test_other_ids_take_about_what_is_said() -> None:
    # Just as full as with two million, when the hash table has its smallest share.
    assert 50 < _bytes_each(*(str(10**9 + i) for i in range(125_000))) < 80
    assert 60 < _bytes_each(*(f"a rather long name, number {i}" for i in range(125_000))) < 100
