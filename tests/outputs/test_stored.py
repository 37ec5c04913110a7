from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from cbatch.errors import OutputError
from cbatch.outputs import Stored, open_stored
from cbatch.outputs.journal import journal
from tests.metrics.factories import make_output, make_ref
from tests.outputs.sessions import commit_at_once, end_row, fail, files, open_writer, read_rows, run_session

FORMATS = ["parquet", "jsonl", "csv"]


@pytest.fixture(autouse=True)
def _(monkeypatch: pytest.MonkeyPatch) -> None:
    commit_at_once(monkeypatch)


def leave(directory: Path, output_format: str, *rows: int, failing: tuple[int, ...] = (), target: Any = None) -> None:
    """A session that is stopped."""
    stored = open_stored(directory, output_format, target=target)
    with open_writer(directory, output_format, stored=stored, target=target) as writer:
        for row in rows:
            end_row(writer, row, at_ns=stored.clock_ns + 10, text=f"of row {row}", fails=row in failing)


def test_where_nothing_is_nothing_is_stored(tmp_path: Path) -> None:
    for directory in (tmp_path, tmp_path / "missing"):
        stored = open_stored(directory, "parquet")
        assert len(stored.done) == stored.num_failed == stored.clock_ns == stored.next_segment == 0
        assert (stored.columns, stored.complete, list(stored.taken())) == (None, False, [])
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("output_format", FORMATS)
def test_what_a_stopped_session_left(tmp_path: Path, output_format: str) -> None:
    leave(tmp_path, output_format, 3, 1, 5, 4, failing=(5,))
    stored = open_stored(tmp_path, output_format)
    assert list(stored.done) == [1, 3, 4, 5]
    assert stored.num_failed == 1
    assert stored.finish_reasons == Counter(stop=3, error=1)
    assert list(stored.taken()) == [(1, "row-1"), (3, "row-3"), (4, "row-4"), (5, "row-5")]
    assert list(stored.taken(frozenset({"generation_failed"}))) == [(1, "row-1"), (3, "row-3"), (4, "row-4")]
    assert stored.clock_ns == 11
    assert not stored.complete


@pytest.mark.parametrize("output_format", FORMATS)
def test_failed_rows_may_be_run_again(tmp_path: Path, output_format: str) -> None:
    leave(tmp_path, output_format, 1, 2, 3, failing=(1, 2))
    stored = open_stored(tmp_path, output_format, retry_failed=True)
    assert list(stored.done) == [3]
    assert (stored.num_failed, stored.finish_reasons) == (2, Counter(stop=1))
    assert list(stored.taken()) == [(3, "row-3")]
    with open_writer(tmp_path, output_format, stored=stored) as writer:
        end_row(writer, 2, text="at last")
        end_row(writer, 1, fails=True)
    again = open_stored(tmp_path, output_format, retry_failed=True)
    assert list(again.done) == [2, 3]
    assert (again.num_failed, again.finish_reasons) == (1, Counter(stop=2))


@pytest.mark.parametrize("order", ["input", "completion"])
@pytest.mark.parametrize("target", [None, "answers"])
@pytest.mark.parametrize("output_format", FORMATS)
def test_failed_rows_of_a_complete_run_may_be_run_again(
    tmp_path: Path, output_format: str, target: str | None, order: str
) -> None:
    directory, path = tmp_path / "run", None if target is None else tmp_path / target
    directory.mkdir()
    options = {"target": path, "order": order}
    with open_writer(directory, output_format, **options) as writer:
        for row in (2, 1, 3, 4):
            end_row(writer, row, text=f"of row {row}", fails=row in (1, 4))
        writer.complete()
    whole = open_stored(directory, output_format, target=path)
    assert whole.complete
    assert (list(whole.done), whole.num_failed) == ([1, 2, 3, 4], 2)
    stored = open_stored(directory, output_format, target=path, retry_failed=True)
    with open_writer(directory, output_format, stored=stored, **options) as writer:
        end_row(writer, 4, text="second")  # and the run is stopped
    half = open_stored(directory, output_format, target=path, retry_failed=True)
    assert (list(half.done), half.complete) == ([2, 3, 4], False)
    with open_writer(directory, output_format, stored=half, **options) as writer:
        end_row(writer, 1, text="third")
        writer.complete()
    found = read_rows(directory, output_format, path)
    wanted = {1: "third", 2: "of row 2", 3: "of row 3", 4: "second"}
    assert dict(found) == wanted
    assert len(found) == 4
    assert order == "completion" or [row for row, _ in found] == [1, 2, 3, 4]
    assert open_stored(directory, output_format, target=path).complete
    assert sorted(pq.read_table(directory / "requests.parquet")["row"].to_pylist()) == [1, 1, 2, 3, 4, 4]


@pytest.mark.parametrize("output_format", FORMATS)
def test_a_session_without_news_changes_nothing(tmp_path: Path, output_format: str) -> None:
    run_session(tmp_path, output_format, range(1, 6))
    before = {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")}
    for complete in (True, False):
        stored = open_stored(tmp_path, output_format, retry_failed=True)
        with open_writer(tmp_path, output_format, stored=stored) as writer:
            if complete:
                writer.complete()
    assert {path: path.stat().st_mtime_ns for path in tmp_path.rglob("*")} == before
    assert open_stored(tmp_path, output_format).complete


def test_the_journal_of_a_killed_session_is_mended(tmp_path: Path) -> None:
    writer = open_writer(tmp_path)
    for row in range(1, 6):
        end_row(writer, row)
    segment = tmp_path / "journal" / "00001.wal"
    whole = segment.read_bytes()
    segment.write_bytes(whole + whole[:100])
    stored = open_stored(tmp_path, "parquet")
    assert list(stored.done) == [1, 2, 3, 4, 5]
    assert stored.dropped_bytes == 100
    assert stored.next_segment == 2
    assert not segment.exists()
    assert open_stored(tmp_path, "parquet").dropped_bytes == 0


def test_a_part_that_was_published_counts_and_its_segment_goes(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    writer = open_writer(tmp_path)
    end_row(writer, 1)
    segment = tmp_path / "journal" / "00000.wal"
    content = segment.read_bytes()
    monkeypatch.setattr(journal, "SEGMENT_ROWS", 2)
    end_row(writer, 2)  # which makes the part; the segment that comes back holds a row less
    segment.write_bytes(content)
    stored = open_stored(tmp_path, "parquet")
    assert list(stored.done) == [1, 2]
    assert not segment.exists()


def test_columns_stay_as_the_first_session_made_them(tmp_path: Path) -> None:
    leave(tmp_path, "parquet", 1)
    stored = open_stored(tmp_path, "parquet")
    assert stored.columns is not None
    assert [(column.field, column.kind) for column in stored.columns] == [("n", "int64")]
    with open_writer(tmp_path, stored=stored, sample=[make_ref(2, {"n": "text", "new": 1})]) as writer:
        writer.finished(make_ref(2, {"n": "text", "new": 1}), make_output([1]))
        writer.complete()
    table = pq.read_table(tmp_path / "results")
    assert table["n"].to_pylist() == [1, None]
    assert table["carried_json"].to_pylist() == [None, '{"n": "text", "new": 1}']


def test_a_session_that_ended_no_row_tells_the_columns_too(tmp_path: Path) -> None:
    types = {"at": pa.timestamp("ns")}
    open_writer(tmp_path, carried_types=types, sample=[]).close()
    columns = open_stored(tmp_path, "parquet").columns
    assert columns is not None
    assert [(column.name, column.type) for column in columns] == [("at", pa.timestamp("ns"))]


@pytest.mark.parametrize("output_format", FORMATS)
def test_what_is_gone_is_run_again(tmp_path: Path, output_format: str) -> None:
    directory, path = tmp_path / "run", tmp_path / "answers"
    directory.mkdir()
    run_session(directory, output_format, range(1, 4), target=path)
    path.unlink()
    stored = open_stored(directory, output_format, target=path)
    assert not stored.complete
    assert len(stored.done) == (3 if output_format == "csv" else 0)  # CSV is made from parts that stay
    run_session(directory, output_format, range(1, 4), target=path)
    assert [row for row, _ in read_rows(directory, output_format, path)] == [1, 2, 3]
    assert open_stored(directory, output_format, target=path).complete


def test_a_part_that_is_gone_makes_a_run_incomplete(tmp_path: Path) -> None:
    run_session(tmp_path, "parquet", range(1, 4))
    (tmp_path / "results" / "part-00000.parquet").unlink()
    stored = open_stored(tmp_path, "parquet")
    assert (len(stored.done), stored.complete) == (0, False)


@pytest.mark.parametrize("output_format", ["parquet", "jsonl"])
def test_a_target_that_is_no_file_of_results_is_an_output_error(tmp_path: Path, output_format: str) -> None:
    directory, path = tmp_path / "run", tmp_path / "answers"
    directory.mkdir()
    leave(directory, output_format, 1, target=path)
    if output_format == "parquet":
        pq.write_table(pa.table({"x": [1]}), path)
    else:
        path.write_text("mine")
    with pytest.raises(OutputError, match=r"answers (holds|is of another)"):
        open_stored(directory, output_format, target=path)
    assert path.exists()


def test_a_part_of_another_version_is_an_output_error(tmp_path: Path) -> None:
    leave(tmp_path, "parquet", 1)
    path = tmp_path / "results" / "part-00000.parquet"
    table = pq.read_table(path)
    pq.write_table(table.append_column("label", [["a"]]), path)
    with pytest.raises(OutputError, match=r"of another version of cbatch, .*: its columns label aren't known"):
        open_stored(tmp_path, "parquet")


def test_a_target_beside_a_directory_without_a_run_is_not_looked_at(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    path.write_text("mine")
    assert len(open_stored(tmp_path / "run", "parquet", target=path).done) == 0


def test_files_of_others_stay(tmp_path: Path) -> None:
    for name in ("results/notes.txt", "journal/notes.txt", "notes.txt"):
        (tmp_path / name).parent.mkdir(exist_ok=True)
        (tmp_path / name).write_text("mine")
    run_session(tmp_path, "jsonl", range(1, 6))
    run_session(tmp_path, "jsonl", range(1, 8))
    assert files(tmp_path) == {
        *("results/notes.txt", "journal/notes.txt", "notes.txt"),
        *("results.jsonl", "requests.parquet", "steps.parquet"),
    }


class Job:
    """What a job should come to, session by session."""

    def __init__(self, directory: Path, output_format: str, target: Path | None) -> None:
        self.directory = directory
        self.output_format = output_format
        self.target = target
        self.texts: dict[int, str | None] = {}
        """By row; None where it failed."""

    def open(self, retry: bool) -> Stored:
        stored = open_stored(self.directory, self.output_format, target=self.target, retry_failed=retry)
        failed = {row for row, text in self.texts.items() if text is None}
        assert set(stored.done) == self.texts.keys() - (failed if retry else set())
        assert stored.num_failed == len(failed)
        assert sum(stored.finish_reasons.values()) == len(stored.done)
        assert [row for row, _ in stored.taken()] == list(stored.done)
        return stored

    def session(self, rows: list[int], *, failing: set[int], retry: bool, ending: str, order: str) -> None:
        stored = self.open(retry)
        options = {"stored": stored, "target": self.target, "order": order}
        writer = open_writer(self.directory, self.output_format, **options)
        for row in rows:
            if row in stored.done:
                continue
            if row in failing:
                fail(writer, row)
            else:
                end_row(writer, row, at_ns=stored.clock_ns, text=f"{len(self.texts)} {row}")
            self.texts[row] = None if row in failing else f"{len(self.texts)} {row}"
            stored.done.add(row)
        if ending == "complete":
            writer.complete()
        if ending != "killed":
            writer.close()


sessions = st.lists(
    st.tuples(
        st.lists(st.integers(1, 12), max_size=8),
        st.sets(st.integers(1, 12), max_size=4),
        st.booleans(),
        st.sampled_from(["complete", "stopped", "killed"]),
    ),
    max_size=5,
)


@settings(max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(sessions, st.sampled_from(FORMATS), st.booleans(), st.sampled_from(["input", "completion"]))
def test_any_sessions_come_to_the_same(
    tmp_path_factory: pytest.TempPathFactory, sessions: list[Any], output_format: str, single: bool, order: str
) -> None:
    folder = tmp_path_factory.mktemp("job")
    (folder / "run").mkdir()
    (folder / "run" / "run.json").touch()
    job = Job(folder / "run", output_format, folder / "answers" if single else None)
    for rows, failing, retry, ending in sessions:
        job.session(rows, failing=failing, retry=retry, ending=ending, order=order)
    job.session(list(range(1, 13)), failing=set(), retry=True, ending="complete", order=order)
    found = read_rows(job.directory, output_format, job.target)
    assert dict(found) == job.texts
    assert len(found) == 12
    assert order == "completion" or [row for row, _ in found] == list(range(1, 13))
    assert open_stored(job.directory, output_format, target=job.target).complete
    requests = pq.read_table(job.directory / "requests.parquet")["row"].to_pylist()
    assert set(requests) == set(range(1, 13))
