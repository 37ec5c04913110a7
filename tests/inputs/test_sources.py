from __future__ import annotations

import os
import threading
from pathlib import Path

import pytest

from cbatch.errors import InputError
from cbatch.inputs.sources import Source, find_sources
from tests.inputs.reading import broken_off, good, open_rows, read_files


def write(folder: Path, *names: str) -> list[str]:
    for name in names:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text('"Hi"\n')
    return [str(folder / name) for name in names]


def paths(found: list[Source]) -> list[str]:
    return [source.path for source in found]


def test_a_glob_stands_for_its_sorted_files_where_it_is_given(tmp_path: Path) -> None:
    b, a, other = write(tmp_path, "b.jsonl", "a.jsonl", "other.txt")
    (tmp_path / "folder.jsonl").mkdir()
    assert paths(find_sources([other, f"{tmp_path}/*.jsonl"])) == [other, a, b]


def test_two_stars_search_subfolders(tmp_path: Path) -> None:
    (deep,) = write(tmp_path, "x/y/a.jsonl")
    assert paths(find_sources([f"{tmp_path}/**/*.jsonl"])) == [deep]


def test_an_existing_path_with_glob_characters_is_itself(tmp_path: Path) -> None:
    literal, _ = write(tmp_path, "part[1].jsonl", "part1.jsonl")
    assert paths(find_sources([literal])) == [literal]


def test_a_directory_stands_for_its_files_but_not_for_hidden_ones(tmp_path: Path) -> None:
    b, a, *_ = write(
        tmp_path, "x/b.jsonl.gz", "a.jsonl", "_SUCCESS", ".a.jsonl", "_tmp/c.jsonl", "notes", "a.jsonl.crc"
    )
    assert paths(find_sources([str(tmp_path)])) == [a, b]


def test_a_directory_of_several_forms_needs_to_be_told_which(tmp_path: Path) -> None:
    data, _ = write(tmp_path, "data.jsonl", "README.md")
    with pytest.raises(InputError, match=r"several forms \(jsonl, text\): give one as --format"):
        find_sources([str(tmp_path)])
    assert paths(find_sources([str(tmp_path)], "jsonl")) == [data]
    with pytest.raises(InputError, match=r"holds no file that ends in \.parquet: give its files by a glob"):
        find_sources([str(tmp_path)], "parquet")


@pytest.mark.parametrize(
    ("name", "form"),
    [
        ("a.jsonl", "jsonl"),
        ("a.NDJSON.GZ", "jsonl"),
        ("a.json", "json"),
        ("a.csv.zst", "csv"),
        ("a.tsv", "tsv"),
        ("a.parquet", "parquet"),
        ("a.feather", "arrow"),
        ("a.md", "text"),
        ("a.txt.xz", "text"),
        ("a.gz", "jsonl"),
        ("prompts", "jsonl"),
    ],
)
def test_the_name_tells_the_form(tmp_path: Path, name: str, form: str) -> None:
    (path,) = write(tmp_path, name)
    assert [source.form for source in find_sources([path])] == [form]
    assert [source.form for source in find_sources([path], "csv")] == ["csv"]


def test_text_files_that_were_looked_for_are_a_prompt_each(tmp_path: Path) -> None:
    a, b = write(tmp_path, "a.txt", "x/b.txt")
    assert [source.document for source in find_sources([str(tmp_path)])] == ["a.txt", "x/b.txt"]
    assert [source.document for source in find_sources([f"{tmp_path}/*/*.txt"])] == ["x/b.txt"]
    assert [source.document for source in find_sources([a, b])] == [None, None]


def test_text_files_of_one_name_are_told_apart_by_their_paths(tmp_path: Path) -> None:
    en, fr, _ = write(tmp_path, "en/intro.txt", "fr/intro.txt", "fr/more.txt")
    items = read_files(tmp_path / "en", tmp_path / "fr")
    assert [row.ref.id for row in good(items)] == [en, fr, "more.txt"]


@pytest.mark.parametrize(
    ("source", "message"),
    [
        ("missing.jsonl", r"missing\.jsonl can't be read: No such file"),
        ("*.missing", r"\*\.missing matches no file"),
        ("folder", r"folder holds no file that ends in \.jsonl, \.ndjson, .*: give its files by a glob"),
        ("a.jsonl/b", r"a\.jsonl/b can't be read: Not a directory"),
    ],
)
def test_what_cant_be_read_is_said_before_the_first_row(tmp_path: Path, source: str, message: str) -> None:
    (file,) = write(tmp_path, "a.jsonl")
    (tmp_path / "folder").mkdir()
    with pytest.raises(InputError, match=message):
        open_rows(file, tmp_path / source)


def test_a_file_without_permission_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (path,) = write(tmp_path, "a.jsonl")
    monkeypatch.setattr(os, "access", lambda path, mode: False)  # root may read anything
    with pytest.raises(InputError, match="permission"):
        find_sources([path])


def test_no_source_and_two_stdins_are_refused() -> None:
    with pytest.raises(InputError, match="no input"):
        find_sources([])
    with pytest.raises(InputError, match="more than once"):
        find_sources(["-", "-"])


def test_a_pipe_is_read_without_being_opened_twice(tmp_path: Path) -> None:
    pipe = tmp_path / "pipe"
    os.mkfifo(pipe)
    rows = open_rows(pipe)
    writer = threading.Thread(target=lambda: pipe.write_bytes(b'"a"\n'))
    writer.start()
    assert [row.content for row in good(list(rows))] == ["a"]
    writer.join()


def test_a_file_name_that_isnt_utf8_is_shown_escaped(tmp_path: Path) -> None:
    path = os.fsencode(tmp_path) + b"/caf\xe9.jsonl"
    try:
        with open(path, "wb") as file:
            file.write(b'"a"\n')
    except OSError:
        pytest.skip("this file system takes UTF-8 names only")
    (item,) = read_files(os.fsdecode(path))
    assert item.ref.where.endswith("caf\\xe9.jsonl:1")


def test_a_file_that_vanishes_before_its_turn_is_an_input_error(tmp_path: Path) -> None:
    first, second = write(tmp_path, "a.jsonl", "b.jsonl")
    rows = open_rows(first, second)
    Path(second).unlink()
    items, message = broken_off(rows)
    assert len(items) == 1
    assert message.startswith(f"{second} can't be read: No such file")


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (
            lambda path: path.write_text('"Hi"\n"Ho"\n'),
            r"changed from 5 to 10 bytes while the job ran: what is finished",
        ),
        (lambda path: path.write_text(""), "changed from 5 to 0 bytes"),
        (lambda path: os.utime(path, ns=(1, 1)), "was written to while"),
        (
            lambda path: (path.with_name("new").write_text('"Hi"\n'), path.with_name("new").replace(path)),
            "another file",
        ),
        (lambda path: (path.unlink(), path.mkdir()), "isn't a file"),
    ],
)
def test_a_change_of_a_file_is_found_at_its_end(tmp_path: Path, change: object, message: str) -> None:
    (path,) = write(tmp_path, "a.jsonl")
    rows = open_rows(path)
    assert next(rows).ref.number == 1
    rows.check_unchanged()
    assert callable(change)
    change(Path(path))
    with pytest.raises(InputError, match=message):
        next(rows)
    with pytest.raises(InputError, match=message):
        rows.check_unchanged()
