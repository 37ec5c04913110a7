from __future__ import annotations

import subprocess
import sys
import tracemalloc

import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.inputs.ids import TakenIds, _Digests

NUMBERS = st.integers(-3, 40).map(str)
ODD = st.sampled_from(["00", "01", "٣", "²", "+1", " 1", "1 ", "1_0", "1.0", "9" * 18, "9" * 19, "9" * 5000, "é", "x"])
CLAIMS = st.lists(st.tuples(NUMBERS | ODD, st.integers(0, 40)))


@given(CLAIMS)
def test_an_id_is_taken_once_as_text(claims: list[tuple[str, int]]) -> None:
    ids, seen = TakenIds(), set[str]()
    for row_id, row in claims:
        assert ids.claim(row_id, row) == (row_id not in seen)
        seen.add(row_id)


@given(CLAIMS, CLAIMS)
def test_those_of_an_earlier_run_are_taken(earlier: list[tuple[str, int]], claims: list[tuple[str, int]]) -> None:
    ids = TakenIds()
    ids.claim_all((row, row_id) for row_id, row in earlier)
    seen = {row_id for row_id, _ in earlier}
    for row_id, row in claims:
        assert ids.claim(row_id, row) == (row_id not in seen)
        seen.add(row_id)


def test_a_digest_across_two_others_isn_t_there() -> None:
    digests = _Digests()
    assert digests.add(b"--" + b"abcdefgh")
    assert digests.add(b"--" + b"abcdabcd")
    across = b"--" + b"efghabcd"
    assert across not in digests
    assert digests.add(across)
    assert across in digests
    assert not digests.add(b"--" + b"abcdabcd")
    assert b"++" + b"abcdefgh" not in digests


def _bytes_each(*ids: str) -> float:
    taken = TakenIds()
    tracemalloc.start()
    for row, row_id in enumerate(ids, 1):
        assert taken.claim(row_id, row)
    used, _ = tracemalloc.get_traced_memory()
    tracemalloc.stop()
    return used / len(ids)


def test_row_numbers_and_the_like_take_a_bit_each() -> None:
    assert _bytes_each(*map(str, range(1, 20_000))) < 0.2


MEASURE = """
import resource
from cbatch.inputs.ids import TakenIds
form, count = {form!r}, {count}
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
ids = TakenIds()
for row in range(count):
    assert ids.claim(form.format(row), row)
unit = 1024 if __import__("sys").platform == "linux" else 1
print((resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * unit)
"""


@pytest.mark.parametrize("form", ["a rather long name, number {}", "1{:09}"])
def test_other_ids_take_little_of_the_process(form: str) -> None:
    """The peak, while growing too. Segments as such take most of it at this size: a million take less than 24 MB."""
    code = MEASURE.format(form=form, count=200_000)
    ran = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(ran.stdout) < 16_000_000
