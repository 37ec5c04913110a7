from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.errors import OutputError
from cbatch.outputs.files import (
    WriteError,
    make_folder,
    publish,
    publish_all,
    remove,
    remove_folder,
    temporary,
    writing,
)


def test_publish_renames_within_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    temporary(path).write_text("new")
    path.write_text("old")
    publish(path)
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_a_refusing_disk_names_the_path_and_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.parquet"
    message = r"a\.parquet can't be written: No such file.*What was finished before is kept"
    with pytest.raises(WriteError, match=message) as caught, writing(path):
        temporary(path).write_text("x")
    assert isinstance(caught.value, OutputError)
    assert caught.value.exit_code == 1


def test_no_file_gets_its_name_before_all_are_on_disk(tmp_path: Path) -> None:
    paths = [tmp_path / name for name in ("a", "b")]
    temporary(paths[0]).write_text("x")
    with pytest.raises(FileNotFoundError):
        publish_all(paths)
    assert [p.name for p in tmp_path.iterdir()] == [".a.tmp"]


def test_what_is_gone_may_be_removed(tmp_path: Path) -> None:
    remove(tmp_path / "none")
    remove_folder(tmp_path / "none")
    folder = tmp_path / "folder"
    make_folder(folder)
    make_folder(folder)
    (folder / "file").write_text("mine")
    remove_folder(folder)
    assert folder.is_dir()
    remove(folder / "file")
    remove_folder(folder)
    assert not folder.exists()
