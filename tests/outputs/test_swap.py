from __future__ import annotations

from pathlib import Path

from cbatch.outputs.files import temporary
from cbatch.outputs.journal.layout import Layout
from cbatch.outputs.swap import finish_swap, swap


def names(folder: Path) -> set[str]:
    return {str(p.relative_to(folder)) for p in folder.rglob("*") if p.is_file()}


def test_new_files_take_the_place_of_old_ones(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "run", "parquet")
    layout.results_folder.mkdir(parents=True)
    for number in range(3):
        layout.piece("results", number).write_text("old")
    new = [layout.piece("results", 0), tmp_path / "answers"]
    for path in new:
        temporary(path).write_text("new")
    swap(layout, new, layout.pieces("results"))
    assert names(tmp_path) == {"run/results/part-00000.parquet", "answers"}
    assert all(path.read_text() == "new" for path in new)


def test_a_swap_goes_on_in_a_directory_that_was_moved(tmp_path: Path) -> None:
    layout = Layout(tmp_path / "a", "parquet")
    layout.results_folder.mkdir(parents=True)
    new, old = layout.piece("results", 0), layout.piece("results", 5)
    temporary(new).write_text("new")
    old.write_text("old")
    layout.journal.mkdir()
    layout.swap_note.write_text('{"new": ["results/part-00000.parquet"], "old": ["results/part-00005.parquet"]}')
    (tmp_path / "a").rename(tmp_path / "b")
    finish_swap(Layout(tmp_path / "b", "parquet"))
    assert names(tmp_path) == {"b/results/part-00000.parquet"}


def test_old_files_stay_where_the_new_ones_are_gone(tmp_path: Path) -> None:
    layout = Layout(tmp_path, "parquet")
    layout.results_folder.mkdir()
    layout.journal.mkdir()
    layout.piece("results", 5).write_text("old")
    layout.swap_note.write_text('{"new": ["results/part-00000.parquet"], "old": ["results/part-00005.parquet"]}')
    finish_swap(layout)
    assert names(tmp_path) == {"results/part-00005.parquet"}


def test_without_a_note_nothing_is_done(tmp_path: Path) -> None:
    finish_swap(Layout(tmp_path, "parquet"))
    assert list(tmp_path.iterdir()) == []
