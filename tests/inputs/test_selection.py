from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

from cbatch.errors import UsageError
from cbatch.inputs import InputOptions
from cbatch.inputs.selection import Sample, Selection, row_numbers
from cbatch.row_set import RowSet
from tests.inputs.reading import numbers, open_rows, read_files, read_values

TOTAL = 40


@pytest.fixture(scope="module")
def files(tmp_path_factory: pytest.TempPathFactory) -> list[Path]:
    folder = tmp_path_factory.mktemp("selection")
    pq.write_table(
        pa.table({"prompt": ["Hi"] * TOTAL, "n": list(range(TOTAL))}), folder / "a.parquet", row_group_size=7
    )
    (folder / "a.jsonl").write_text("".join(f'{{"prompt": "Hi", "n": {n}}}\n\n' for n in range(TOTAL)))
    (folder / "a.csv").write_text("prompt,n\n" + "".join(f"Hi,{n}\n" for n in range(TOTAL)))
    return sorted(folder.iterdir())


@given(
    st.fixed_dictionaries(
        {},
        optional={
            "where": st.sampled_from(["n > 5", "n < 30", "n > 100"]),
            "sample": st.sampled_from([0.5, 0.1, 1, 5, 100]),
            "offset": st.integers(0, TOTAL + 2),
            "limit": st.integers(1, TOTAL + 2),
            "seed": st.integers(-1, 3),
        },
    ),
    st.sets(st.integers(1, TOTAL)) | st.integers(0, TOTAL).map(lambda n: set(range(1, n + 1))),
)
def test_the_order_is_where_sample_offset_limit_done(
    files: list[Path], options: dict[str, Any], done: set[int]
) -> None:
    conditions = {"n > 5": lambda n: n > 5, "n < 30": lambda n: n < 30, "n > 100": lambda n: n > 100}
    matching = [n + 1 for n in range(TOTAL) if options.get("where") is None or conditions[options["where"]](n)]
    sample = Sample(options.get("sample"), options.get("seed", 0))
    if sample.is_count:
        sample.count([np.array(matching, np.int64)])
    sampled = sample.of(np.array(matching, np.int64)).tolist()
    offset, limit = options.get("offset", 0), options.get("limit", TOTAL)
    chosen = sampled[offset : offset + limit]
    left = [number for number in chosen if number not in done]
    for path in files:
        rows = open_rows(path, done=RowSet(done & set(chosen)), **options)
        assert rows.num_rows in (None, len(left))
        assert numbers(list(rows)) == left, path.name


def test_the_number_of_rows_is_known_where_the_file_says_it(files: list[Path]) -> None:
    parquet = next(path for path in files if path.suffix == ".parquet")
    assert open_rows(parquet, parquet).num_rows == 2 * TOTAL
    assert open_rows(parquet, limit=10, offset=35).num_rows == 5
    assert open_rows(parquet, done=RowSet([1, 2])).num_rows == TOTAL - 2
    assert open_rows(parquet, sample=3).num_rows == 3
    assert open_rows(parquet, where="n > 3").num_rows is None
    assert [open_rows(path).num_rows for path in files] == [None, None, TOTAL]


def test_a_sample_is_the_same_for_the_same_seed_and_of_the_right_size() -> None:
    (numbers_,) = row_numbers(10_000)
    shares = {seed: Sample(0.1, seed).of(numbers_).tolist() for seed in range(3)}
    assert all(880 < len(chosen) < 1120 for chosen in shares.values())
    assert len({tuple(chosen) for chosen in shares.values()}) == 3
    assert Sample(0.1, 1).of(numbers_).tolist() == shares[1]
    assert len(set(shares[0]) & set(shares[1])) < 200
    smaller = Sample(0.05, 1).of(numbers_).tolist()
    assert set(smaller) < set(shares[1])


def test_a_sample_of_so_many_rows_is_exact() -> None:
    sample = Sample(100, 0)
    sample.count(row_numbers(10_000))
    (numbers_,) = row_numbers(10_000)
    assert len(sample.of(numbers_)) == 100


def test_rows_of_a_pipe_cant_be_counted() -> None:
    with pytest.raises(UsageError, match=r"--sample 5 of stdin: its rows can't be counted beforehand; give a share"):
        read_values("a", sample=5)
    assert numbers(read_values("a", "b", "c", "d", sample=0.5)) == [
        number for number in (1, 2, 3, 4) if Sample(0.5, 0).of(next(row_numbers(4))).tolist().count(number)
    ]


def test_done_rows_that_come_together_arent_looked_at() -> None:
    selection = Selection(InputOptions(), RowSet(range(1, 101)))
    assert not selection.wants(1, 100)
    assert not selection.wants(50, 51)
    assert selection.wants(50, 52)
    after = Selection(InputOptions(offset=100), RowSet())
    assert (after.wants(1, 100), after.wants(1, 101)) == (False, True)
    matching = Selection(InputOptions(where="n > 1", limit=5), RowSet(range(1, 101)))
    assert matching.wants(1, 100)  # the limit counts them


def test_reading_ends_at_the_limit(tmp_path: Path) -> None:
    (tmp_path / "a.jsonl").write_text('"a"\n"b"\n')
    (tmp_path / "b.jsonl.gz").write_text("damaged")
    assert numbers(read_files(tmp_path, limit=2)) == [1, 2]
