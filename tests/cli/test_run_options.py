"""Mistakes that the options of a run alone show."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from cbatch.cli.defaults import run_options
from cbatch.cli.options import OutputFormat
from cbatch.cli.run_options import RunOptions
from cbatch.cli.workdir import make_way
from cbatch.errors import OutputError, UsageError


def options(inputs: list[str], output: str | None = None, **given: object) -> RunOptions:
    return run_options({"inputs": inputs, "output": None if output is None else Path(output), **given})


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    for name in ("docs/a.txt", "docs/sub/b.txt", "rows.jsonl"):
        Path(name).parent.mkdir(parents=True, exist_ok=True)
        Path(name).write_text("hi\n")
    os.symlink("docs", "link")


@pytest.mark.parametrize(
    ("inputs", "output", "read"),
    [
        ("docs", "docs/out", "docs/out/run.json"),
        ("docs/", "docs/sub/answers.parquet", "docs/sub/answers.parquet"),
        ("link", "docs/out", "docs/out/run.json"),
        (".", "out", "out/run.json"),
        ("docs", "docs", "docs/run.json"),
        ("docs/*.jsonl", "docs/answers.jsonl", "docs/answers.jsonl"),
        ("docs/**/*.parquet", "docs/out", "docs/out/requests.parquet"),
        ("docs/**/requests.*", "docs/out", "docs/out/requests.parquet"),
        ("./docs/*", "docs/answers.csv", "docs/answers.csv"),
    ],
)
def test_an_output_that_the_next_run_would_read_is_refused(inputs: str, output: str, read: str) -> None:
    with pytest.raises(UsageError, match=f"^{read} would be one of the inputs that .* give an --output elsewhere"):
        options([inputs], output).check_output()


@pytest.mark.parametrize(
    ("inputs", "output"),
    [
        ("docs", None),
        (".", None),
        ("docs", "docs/.out"),
        ("docs", "docs/_answers.csv"),
        ("docs", "docsy/out"),
        ("docs/sub", "docs/out"),
        ("docs/*.txt", "docs/answers.jsonl"),
        ("docs/*", "docs/out"),
        ("docs/**/*.txt", "docs/out"),
        ("docs/**/*", "docs/.out/a/answers.csv"),
        ("rows.jsonl", "answers.jsonl"),
    ],
)
def test_any_other_output_is_fine(inputs: str, output: str | None) -> None:
    options([inputs], output).check_output()


def test_results_of_another_form_than_the_inputs_arent_read() -> None:
    options(["docs"], "docs/out", input_format="text").check_output()
    with pytest.raises(UsageError, match=r"docs/answers\.csv would be one of the inputs"):
        options(["docs"], "docs/answers.csv", input_format="csv").check_output()


@pytest.mark.parametrize("inputs", [["rows.jsonl", "docs/a.txt"], ["docs/*.txt"]])
def test_a_command_that_writes_no_results_needs_no_place_for_them(inputs: list[str]) -> None:
    given = options(inputs)
    given.check()
    with pytest.raises(UsageError, match=r"give -o DIR"):
        given.check_output()


def test_a_format_that_isnt_the_names_is_refused() -> None:
    def check(form: OutputFormat, output: str, *given: str) -> None:
        options(["rows.jsonl"], output, output_format=form, given=given).check_output()

    check(OutputFormat.parquet, "answers.csv")
    check(OutputFormat.csv, "answers.csv", "output_format")
    check(OutputFormat.parquet, "answers", "output_format")
    for form in (OutputFormat.parquet, OutputFormat.jsonl):
        with pytest.raises(
            UsageError, match=rf"--output-format {form.value} can't be written to answers\.csv: keep one"
        ):
            check(form, "answers.csv", "output_format")


def test_stalls_are_seen_by_a_supervisor_only() -> None:
    options(["rows.jsonl"], supervise=False).check()
    options(["rows.jsonl"], given=("stall_timeout",)).check()
    with pytest.raises(UsageError, match=r"--stall-timeout .* --no-supervise .*: keep one"):
        options(["rows.jsonl"], supervise=False, given=("stall_timeout",)).check()
    options(["rows.jsonl"], supervise=False, stall_timeout=0.0, given=("stall_timeout",)).check()


@pytest.mark.parametrize("name", ["n" * 300, "n" * 300 + ".csv", "rows.jsonl/answers.csv", "rows.jsonl/out"])
@pytest.mark.parametrize("force", [False, True])
def test_an_output_that_cant_be_looked_at_is_named(name: str, force: bool) -> None:
    given = options(["rows.jsonl"], name, force=force)
    given.check_output()
    with pytest.raises(OutputError, match=f"^{name}.* can't be used as the output directory: .*; give another one"):
        make_way(given)


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can become somebody who may look")
def test_an_output_in_a_folder_that_may_not_be_entered() -> None:
    Path("locked").mkdir(mode=0o700)
    os.seteuid(65534)
    try:
        given = options(["rows.jsonl"], "locked/answers.csv")
        given.check_output()
        with pytest.raises(OutputError, match="can't be used as the output directory: Permission denied"):
            make_way(given)
    finally:
        os.seteuid(0)


def test_the_working_directory_isnt_set_aside() -> None:
    Path("run.json").write_text("{}")
    given = options(["docs"], ".", force=True)
    with pytest.raises(OutputError, match=r"\. can't be renamed.*give another --output"):
        make_way(given)


def test_force_isnt_to_be_given_again() -> None:
    assert [options(["docs"], force=force).again for force in (False, True)] == [
        "the same command",
        "the same command without --force",
    ]
