from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from cbatch.errors import OutputError
from cbatch.outputs import check_directory, output_paths, owns, prepare_directory, set_aside

OWN = (
    "results/part-00000.parquet",
    "results/.part-00001.parquet.tmp",
    "results.jsonl",
    ".results.jsonl.tmp",
    "results.csv",
    ".results.csv.tmp",
    "journal/00000.wal",
    "journal/requests-00001.parquet",
    "journal/.steps-00001.parquet.tmp",
    "journal/results-00001.parquet",
    "journal/swap.json",
    "journal/.swap.json.tmp",
    "requests.parquet",
    ".requests.parquet.tmp",
    "steps.parquet",
    ".steps.parquet.tmp",
    "run.json",
    ".run.json.tmp",
)
FOREIGN = (
    "notes.txt",
    "results/part-of-a-book.parquet",
    "results/part-00000-spark.parquet",
    "runs/run.json",
    ".tmp",
    "journal/notes.txt",
)


def fill(directory: Path, names: tuple[str, ...]) -> None:
    for name in names:
        path = directory / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(name)


def files(directory: Path) -> set[str]:
    return {str(p.relative_to(directory)) for p in directory.rglob("*") if p.is_file()}


def test_makes_the_directory_and_its_parents(tmp_path: Path) -> None:
    prepare_directory(tmp_path / "a" / "b", force=False)
    assert (tmp_path / "a" / "b").is_dir()
    assert files(tmp_path) == set()


def test_an_empty_directory_is_fine(tmp_path: Path) -> None:
    prepare_directory(tmp_path, force=False)
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("name", ["results.jsonl", ".hidden", "notes.txt"])
def test_refuses_a_directory_that_is_not_empty(tmp_path: Path, name: str) -> None:
    fill(tmp_path, (name,))
    with pytest.raises(OutputError, match=r"isn't empty: give another directory, or --force") as caught:
        prepare_directory(tmp_path, force=False)
    assert caught.value.exit_code == 2
    assert files(tmp_path) == {name}


def test_force_removes_own_files_and_nothing_else(tmp_path: Path) -> None:
    fill(tmp_path, OWN + FOREIGN)
    prepare_directory(tmp_path, force=True)
    assert files(tmp_path) == set(FOREIGN)


def test_force_leaves_nothing_of_a_run_alone(tmp_path: Path) -> None:
    fill(tmp_path, OWN)
    prepare_directory(tmp_path, force=True)
    assert list(tmp_path.iterdir()) == []


def test_force_unlinks_a_link_and_keeps_its_target(tmp_path: Path) -> None:
    target = tmp_path / "target"
    target.write_text("mine")
    out = tmp_path / "out"
    out.mkdir()
    (out / "run.json").symlink_to(target)
    (out / "steps.parquet").symlink_to(tmp_path / "gone")
    prepare_directory(out, force=True)
    assert list(out.iterdir()) == []
    assert target.read_text() == "mine"


def test_refuses_a_file(tmp_path: Path) -> None:
    path = tmp_path / "answers.parquet"
    path.write_text("mine")
    with pytest.raises(OutputError, match="is a file, and the output is a directory"):
        prepare_directory(path, force=True)
    assert path.read_text() == "mine"


def test_refuses_a_path_below_a_file(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(OutputError, match="can't be used as the output directory: Not a directory"):
        prepare_directory(tmp_path / "file" / "out", force=False)


def test_refuses_a_directory_it_can_not_write(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    def refuse(**_: object) -> None:
        raise PermissionError(13, "Permission denied")

    # Mode bits don't stop root, whom the suite may run as.
    monkeypatch.setattr("tempfile.TemporaryFile", refuse)
    with pytest.raises(OutputError, match="can't be used as the output directory: Permission denied"):
        prepare_directory(tmp_path, force=False)


@pytest.mark.parametrize("force", [True, False])
def test_a_check_touches_nothing(tmp_path: Path, force: bool) -> None:
    check_directory(tmp_path / "a" / "b", force)
    assert list(tmp_path.iterdir()) == []
    if force:
        fill(tmp_path, OWN)
        check_directory(tmp_path, force)
        assert files(tmp_path) == set(OWN)


@pytest.mark.parametrize("judge", [check_directory, prepare_directory])
@pytest.mark.parametrize("force", [True, False])
def test_what_the_system_refuses_is_an_output_error(
    tmp_path: Path, judge: Callable[[Path, bool], None], force: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    with pytest.raises(OutputError, match="can't be used as the output directory: File name too long"):
        judge(tmp_path / ("x" * 300), force)

    def refuse(_: Path) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "iterdir", refuse)
    with pytest.raises(OutputError, match="can't be used as the output directory: Permission denied"):
        judge(tmp_path, force)


@pytest.mark.parametrize("name", ["run.json", "journal/00000.wal", "requests.parquet"])
def test_a_run_is_known_by_what_it_leaves(tmp_path: Path, name: str) -> None:
    assert not owns(tmp_path / "missing")
    fill(tmp_path, ("notes.txt",))
    assert not owns(tmp_path)
    fill(tmp_path, (name,))
    assert owns(tmp_path)


def test_what_is_set_aside_gets_the_next_free_name(tmp_path: Path) -> None:
    for number in (1, 2):
        fill(tmp_path, ("out/run.json",))
        assert set_aside(tmp_path / "out") == tmp_path / f"out.{number}"
    (tmp_path / "out.3").symlink_to(tmp_path / "gone")
    fill(tmp_path, ("out/run.json", "answers.parquet"))
    assert set_aside(tmp_path / "out") == tmp_path / "out.4"
    assert set_aside(tmp_path / "answers.parquet") == tmp_path / "answers.parquet.1"
    assert files(tmp_path) == {"out.1/run.json", "out.2/run.json", "out.4/run.json", "answers.parquet.1"}


@pytest.mark.parametrize("path", [".", "..", "x/..", "/"])
def test_what_has_no_name_of_its_own_can_not_be_set_aside(path: str) -> None:
    with pytest.raises(OutputError, match="can't be renamed"):
        set_aside(Path(path))


def test_what_can_not_be_set_aside_is_an_output_error(tmp_path: Path) -> None:
    with pytest.raises(OutputError, match=r"out can't be renamed to .*out\.1: No such file"):
        set_aside(tmp_path / "out")


def test_paths_of_a_run(tmp_path: Path) -> None:
    assert output_paths(tmp_path, "csv")["results"] == tmp_path / "results.csv"
    assert output_paths(tmp_path, "jsonl")["results"] == tmp_path / "results.jsonl"
    found = output_paths(tmp_path, "parquet", tmp_path / "a.parquet")
    assert found["results"] == tmp_path / "a.parquet"
    assert found["requests"] == tmp_path / "requests.parquet"
