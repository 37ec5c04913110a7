from __future__ import annotations

from pathlib import Path

import pytest

from cbatch.errors import OutputError
from cbatch.outputs.files import WriteError, publish, temporary, writing


def test_publish_renames_within_the_folder(tmp_path: Path) -> None:
    path = tmp_path / "a.parquet"
    temporary(path).write_text("new")
    path.write_text("old")
    publish(path)
    assert path.read_text() == "new"
    assert [p.name for p in tmp_path.iterdir()] == ["a.parquet"]


def test_a_refusing_disk_names_the_path_and_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "missing" / "a.parquet"
    message = r"a\.parquet can't be written: No such file.*is complete and kept"
    with pytest.raises(WriteError, match=message) as caught, writing(path):
        temporary(path).write_text("x")
    assert isinstance(caught.value, OutputError)
    assert caught.value.exit_code == 1
