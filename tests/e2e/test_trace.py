"""`cbatch trace` as a user runs it: exit codes, quick help, and prompts that other commands take."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from cbatch.traces.reader import read_trace
from tests.e2e.command import cbatch, results
from tests.traces.files import VIDUR, write_lines

_NATIVE = "import sys, cbatch.cli; print(*{'llama_cpp', 'pyarrow', 'ijson'} & sys.modules.keys())"


def test_help_loads_no_native_library() -> None:
    done = subprocess.run([sys.executable, "-c", _NATIVE], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == ""


@pytest.mark.parametrize("command", ["gen", "import", "lint", "show", "prompts"])
def test_every_command_has_help(command: str) -> None:
    ran = cbatch("trace", command, "--help")
    assert ran.code == 0
    assert "--" in ran.out
    assert ran.out.isascii() or not set(ran.out) & set("🅰🅱")  # `:A:` in a help text would be one


def test_exit_codes(tmp_path: Path) -> None:
    out = tmp_path / "t.parquet"
    assert cbatch("trace", "gen", "-o", out, "-r", 1, "--num-requests", 3).code == 0
    again = cbatch("trace", "gen", "-o", out, "-r", 1, "--num-requests", 3)
    assert (again.code, again.out) == (2, "")
    assert again.err == f"cbatch: {out} exists: give another name, or --force to replace it\n"
    assert cbatch("trace", "gen", "-o", out, "--force", "--seed", -1).code == 2
    bad = write_lines(tmp_path, VIDUR, "0,1,1", "x,1,1")
    assert cbatch("trace", "lint", bad).code == 3
    assert cbatch("trace", "lint", tmp_path / "absent").code == 2
    assert cbatch("trace", "show", bad).code == 0


@pytest.mark.skipif(sys.platform == "darwin", reason="file names are UTF-8 there")
def test_names_that_are_not_utf8(tmp_path: Path) -> None:
    path = tmp_path / "\udcff.parquet"
    assert cbatch("trace", "gen", "-o", path, "-r", 1, "--num-requests", 3).code == 0
    copy = tmp_path / "copy.parquet"
    assert cbatch("trace", "import", path, "-o", copy).code == 0
    made = cbatch(
        "trace", "gen", "-o", copy, "-r", 1, "--num-requests", 3, "--prompt-tokens", f"empirical:{path}", "--force"
    )
    assert made.code == 0
    lengths = read_trace(copy).manifest.source["prompt_tokens"]
    assert lengths == {"kind": "empirical", "file": f"{tmp_path}/\\xff.parquet"}


@pytest.mark.e2e
def test_a_run_finds_exactly_the_traces_prompts(tmp_path: Path) -> None:
    path, prompts, out = tmp_path / "t.parquet", tmp_path / "p.jsonl", tmp_path / "out"
    shared = ("--prefix-share", 0.5, "--prefix-block", 4)
    lengths = ("--prompt-tokens", "uniform:1:40", "--output-tokens", "uniform:1:4")
    made = cbatch("trace", "gen", "-o", path, "--arrival", "burst", "--num-requests", 10, *shared, *lengths)
    assert made.code == 0, made.err
    assert cbatch("trace", "prompts", path, "-o", prompts, "-m", "smollm2").code == 0
    ran = cbatch("run", prompts, "-o", out, "-q")
    assert ran.code == 0, ran.err
    found = [(row["prompt_tokens"], row["output_tokens"]) for row in results(out)]
    assert found == [(request.prompt_tokens, request.output_tokens) for request in read_trace(path)]
