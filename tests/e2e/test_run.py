"""`cbatch run` as a user runs it, on a tiny model: outputs, exit codes, inputs of every kind, mistakes."""

from __future__ import annotations

import json
import os
import shlex
import subprocess
from itertools import pairwise
from pathlib import Path
from typing import Any

import pytest

from tests.e2e.command import EXAMPLES, cbatch, command, results, run_json, table, write_rows


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(
        tmp_path / "rows.jsonl",
        [{"id": f"r{i}", "prompt": f"Prompt number {i}", "max_tokens": 2 + i % 5, "label": i} for i in range(40)],
    )


def test_everything_is_written_and_agrees(rows: Path, tiny_model: Path) -> None:
    ran = cbatch("run", rows, "-m", tiny_model, "-t", 1, "--max-num-seqs", 8, "--summary", "json", "--ignore-eos")
    assert ran.code == 0, ran.err
    directory = Path(f"{rows}.cbatch")
    answers = results(directory)
    assert [row["id"] for row in answers] == [f"r{i}" for i in range(40)]
    assert [row["label"] for row in answers] == list(range(40))
    assert [row["output_tokens"] for row in answers] == [2 + i % 5 for i in range(40)]
    requests, steps = table(directory / "requests.parquet"), table(directory / "steps.parquet")
    assert {row["id"] for row in requests} == {row["id"] for row in answers}
    assert sum(step["finished"] for step in steps) == 40
    assert sum(step["output_tokens"] for step in steps) == sum(row["output_tokens"] for row in answers)
    assert sum(step["prefill_tokens"] + step["restored_tokens"] for step in steps) == sum(
        row["prompt_tokens"] for row in answers
    )
    for row in requests:
        assert row["arrival_ns"] <= row["enqueued_ns"] <= row["admitted_ns"] < row["first_token_ns"]
        assert row["token_ns"][0] == row["first_token_ns"]
        assert row["token_ns"][-1] == row["finished_ns"]
        assert row["token_ns"] == sorted(row["token_ns"])
        assert row["ttft_ns"] == row["first_token_ns"] - row["arrival_ns"]
    summary = json.loads(ran.out)
    record = run_json(directory)
    assert summary["rows_ok"] == record["totals"]["rows_ok"] == 40
    assert record["status"] == "complete"
    assert record["context"]["max_num_seqs"] == 8
    assert record["model"]["fingerprint"].startswith("sha256:")


def test_slots_are_refilled_in_the_step_after_they_free(rows: Path, tiny_model: Path) -> None:
    assert cbatch("run", rows, "-m", tiny_model, "-t", 1, "--max-num-seqs", 8, "-q").code == 0
    steps = table(Path(f"{rows}.cbatch") / "steps.parquet")
    for step, following in pairwise(steps):
        assert following["admitted"] == min(step["waiting"], step["finished"])
        assert following["slots_busy"] == step["slots_busy"] - step["finished"] + following["admitted"]


def test_the_same_run_again_gives_the_same_answers(rows: Path, tiny_model: Path) -> None:
    options = ("run", rows, "-m", tiny_model, "-t", 1, "-q", "--temperature", "0.8", "--top-k", "40", "--seed", "0")
    assert cbatch(*options).code == 0
    first = results(Path(f"{rows}.cbatch"))
    assert cbatch(*options, "--force", "--max-num-seqs", "3").code == 0
    assert results(Path(f"{rows}.cbatch")) == first


def test_split_and_unified_kv_give_the_same_answers(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    exact = ("-t", 1, "--kv-type", "f32", "--flash-attn", "off", "-q", "--max-num-seqs", 8)
    for kv in ("split", "unified"):
        assert cbatch("run", rows, "-m", tiny_model, *exact, "--kv", kv, "-o", tmp_path / kv).code == 0
    assert results(tmp_path / "split") == results(tmp_path / "unified")


def test_faulty_rows_cost_no_other_row(tmp_path: Path, tiny_model: Path) -> None:
    faults = tmp_path / "faults.jsonl"
    too_long = json.dumps({"id": "too-long", "prompt": "word " * 1000}).encode()
    faults.write_bytes((EXAMPLES / "faults.jsonl").read_bytes() + too_long + b"\n")
    ran = cbatch("run", faults, "-m", tiny_model, "-t", 1, "--max-tokens", 4, "-o", tmp_path / "out")
    assert ran.code == 3
    answers = results(tmp_path / "out")
    failed = {row["row"]: row for row in answers if row["error"] is not None}
    good = [row for row in answers if row["error"] is None]
    assert len(good) == 6
    assert all(row["output_tokens"] and row["finish_reason"] in ("stop", "length") for row in good)
    assert len(failed) == 29
    assert [row["row"] for row in answers] == list(range(1, 36))
    assert failed[35]["error_code"] == "prompt_too_long"
    assert "context holds 2048" in failed[35]["error"]
    assert "29 rows failed" in ran.out


def test_standard_input_in_and_openai_lines_out(tmp_path: Path, tiny_model: Path) -> None:
    lines = (
        b'"one"\n{"prompt": "two", "id": "b"}\n{"messages": [{"role": "user", "content": "three"}]}\n{"prompt": ""}\n'
    )
    ran = cbatch(
        "run", "-", "-m", tiny_model, "-t", 1, "-o", tmp_path / "out", "--output-format", "jsonl", "--max-tokens", 3,
        stdin=lines,
    )  # fmt: skip
    assert ran.code == 3
    found = [json.loads(line) for line in (tmp_path / "out" / "results.jsonl").read_text("utf-8").splitlines()]
    by_id = {row["custom_id"]: row for row in found}
    assert by_id.keys() == {"1", "b", "3", "4"}
    assert by_id["b"]["response"]["body"]["usage"]["completion_tokens"] == 3
    assert by_id["4"]["error"]["code"] == "empty_prompt"


def test_several_files_and_globs_need_an_output(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    other = write_rows(tmp_path / "rows2.jsonl", [{"id": "r3", "prompt": "again"}, {"id": "new", "prompt": "x"}])
    refused = cbatch("run", rows, other, "-m", tiny_model)
    assert refused.code == 2
    assert "give -o DIR" in refused.err
    ran = cbatch("run", tmp_path / "*.jsonl", "-m", tiny_model, "-t", 1, "-o", tmp_path / "out", "--max-tokens", 2)
    assert ran.code == 3
    answers = results(tmp_path / "out")
    assert len(answers) == 42
    assert [row["error_code"] for row in answers if row["error"]] == ["duplicate_id"]


def test_a_later_longer_row_makes_the_context_grow(tmp_path: Path, tiny_model: Path) -> None:
    """More rows than the look-ahead window holds, the long one after it."""
    short: list[dict[str, Any]] = [{"prompt": "a", "max_tokens": 1} for _ in range(10_050)]
    rows = write_rows(tmp_path / "rows.jsonl", [*short, {"id": "long", "prompt": "b" * 900, "max_tokens": 2}])
    ran = cbatch("run", rows, "-m", tiny_model, "-t", 1, "--raw", "--max-num-seqs", 64, "-q")
    assert ran.code == 0, ran.err
    answers = results(Path(f"{rows}.cbatch"))
    assert len(answers) == 10_051
    assert answers[-1]["id"] == "long"
    assert answers[-1]["output_tokens"] == 2
    totals = [step["kv_total_cells"] for step in table(Path(f"{rows}.cbatch") / "steps.parquet")]
    assert totals[0] == 64 * 256
    assert totals[-1] == 64 * 1024


def test_no_rows_at_all(tmp_path: Path, tiny_model: Path) -> None:
    (tmp_path / "none.jsonl").write_text("\n\n")
    ran = cbatch("run", tmp_path / "none.jsonl", "-m", tiny_model, "-t", 1)
    assert ran.code == 0, ran.err
    assert results(tmp_path / "none.jsonl.cbatch") == []
    assert "0 of 0 answered" in ran.out


def test_a_context_that_is_rounded_up(tmp_path: Path, tiny_model: Path) -> None:
    rows = write_rows(tmp_path / "r.jsonl", [{"prompt": "a" * 150, "max_tokens": 2}])
    for kv in ("split", "unified"):
        ran = cbatch("run", rows, "-m", tiny_model, "-t", 1, "--raw", "--ctx", 100, "--kv", kv, "--force", "-q")
        assert ran.code == 0, ran.err


def test_a_reader_of_the_summary_that_goes_away_is_no_failure(rows: Path, tiny_model: Path) -> None:
    for form in ("table", "json"):
        line = shlex.join(command("run", rows, "-m", tiny_model, "-t", 1, "--force", "--summary", form))
        shell = f"{line} | true; exit ${{PIPESTATUS[0]}}"
        ran = subprocess.run(["bash", "-c", shell], capture_output=True, text=True, timeout=60, check=False)
        assert ran.returncode == 0, ran.stderr
        assert "Error" not in ran.stderr


@pytest.mark.parametrize("closed", ["0<&-", "1>&-", "2>&-"])
def test_a_closed_standard_stream_is_no_failure(rows: Path, tiny_model: Path, closed: str) -> None:
    line = shlex.join(command("run", rows, "-m", tiny_model, "-t", 1, "--max-tokens", 2))
    ran = subprocess.run(["bash", "-c", f"{line} {closed}"], capture_output=True, text=True, timeout=60, check=False)
    assert ran.returncode == 0, ran.stderr
    assert len(results(Path(f"{rows}.cbatch"))) == 40


def test_a_file_name_that_is_not_utf8(tmp_path: Path, tiny_model: Path) -> None:
    name = os.fsdecode(bytes(tmp_path) + b"/r\xff.jsonl")
    write_rows(Path(name), [{"prompt": "a", "max_tokens": 2}])
    ran = cbatch("run", name, "-m", tiny_model, "-t", 1, "-q")
    assert ran.code == 0, ran.err
    assert run_json(Path(f"{name}.cbatch"))["status"] == "complete"


def test_a_fixed_context_makes_longer_rows_error_rows(tmp_path: Path, tiny_model: Path) -> None:
    rows = write_rows(
        tmp_path / "r.jsonl", [{"prompt": "a" * 300, "max_tokens": 1}, {"prompt": "b", "max_tokens": 999}]
    )
    ran = cbatch("run", rows, "-m", tiny_model, "-t", 1, "--raw", "--ctx", 256, "--ignore-eos")
    assert ran.code == 3
    long, cut = results(Path(f"{rows}.cbatch"))
    assert long["error_code"] == "prompt_too_long"
    assert cut["prompt_tokens"] + cut["output_tokens"] == 257
    assert "1 rows had their max_tokens cut" in ran.out


def test_prompts_that_pass_the_context_can_be_cut(tmp_path: Path, tiny_model: Path) -> None:
    rows = write_rows(
        tmp_path / "r.jsonl", [{"prompt": "a" * 300 + "Z", "max_tokens": 20}, {"prompt": "b", "max_tokens": 20}]
    )
    common = ("run", rows, "-m", tiny_model, "-t", 1, "--raw", "--ctx", 256, "--ignore-eos", "--force")
    for policy in ("truncate-left", "truncate-middle"):
        ran = cbatch(*common, "--on-overflow", policy)
        assert ran.code == 0, ran.err
        cut, fits = results(Path(f"{rows}.cbatch"))
        assert (cut["prompt_tokens"], cut["truncated_tokens"], cut["output_tokens"]) == (237, 302 - 237, 20)
        assert (fits["truncated_tokens"], fits["dropped_tokens"]) == (0, 0)
        assert "1 rows had their prompts cut to what a context of 256 holds" in ran.out


@pytest.mark.parametrize("kv", ["split", "unified"])
def test_outputs_go_on_past_the_context_where_it_is_shifted(tmp_path: Path, tiny_model: Path, kv: str) -> None:
    rows = write_rows(
        tmp_path / "r.jsonl", [{"prompt": "a" * n, "max_tokens": 800 if n < 250 else 5} for n in (20, 200, 240, 300)]
    )
    common = ("run", rows, "-m", tiny_model, "-t", 1, "--raw", "--ctx", 256, "--ignore-eos", "--on-overflow", "shift")
    ran = cbatch(*common, "--kv", kv)
    assert ran.code == 0, ran.err
    found = results(Path(f"{rows}.cbatch"))
    assert [row["output_tokens"] for row in found] == [800, 800, 800, 5]
    assert all(row["dropped_tokens"] > 500 for row in found[:3])
    assert (found[3]["dropped_tokens"], found[3]["truncated_tokens"]) == (0, 301 - 252)
    assert "3 rows outgrew the context of 256: see dropped_tokens in the results" in ran.out
    context = run_json(Path(f"{rows}.cbatch"))["context"]
    assert (context["type_k"], context["type_v"]) == ("f16", "bf16")


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("--on-overflow", "cut"), "on-overflow is 'cut': give one of error"),
        (("--keep", "3"), "--keep is for rows that pass the context"),
        (("--on-overflow", "shift", "--keep", "-1"), "keep is -1"),
        (
            ("--on-overflow", "shift", "--ctx", "256", "--keep", "129"),
            "a context of 256 can keep half of it: give 128",
        ),
        (
            ("--on-overflow", "shift", "--kv-type", "bf16"),
            "keys in bf16, and ends the process: give --kv-type f16",
        ),
    ],
)
def test_what_cannot_be_done_about_long_rows_is_refused(
    tmp_path: Path, tiny_model: Path, arguments: tuple[str, ...], message: str
) -> None:
    rows = write_rows(tmp_path / "r.jsonl", [{"prompt": "a"}])
    ran = cbatch("run", rows, "-m", tiny_model, "-t", 1, *arguments)
    assert ran.code == 2
    assert message in " ".join(ran.err.split())
    assert not Path(f"{rows}.cbatch").exists()


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("nowhere.jsonl",), "nowhere.jsonl"),
        (("ROWS", "-m", "missing.gguf"), "missing.gguf"),
        (("ROWS", "-m", "ROWS"), "GGUF"),
        (("ROWS", "--top-p", "0"), "top_p is 0"),
        (("ROWS", "--kv", "both"), "kv mode is 'both'"),
        (("ROWS", "--kv-type", "q9"), "kv-type is 'q9'"),
        (("ROWS", "--max-num-seqs", "999"), "max_num_seqs is 999"),
        (("ROWS", "--cpu-mask", "x", "-m", "TINY"), "--cpu-mask x"),
        (("ROWS", "--cpu-mask", "500", "-m", "TINY"), "CPU 500 can't be used here"),
        (("ROWS", "--cpu-mask", "0", "-t", "2"), "2 threads on 1 CPUs"),
        (("ROWS", "--priority", "asap", "-m", "TINY"), "priority is 'asap'"),
        (("ROWS", "--tensor-split", "1,-1"), "--tensor-split 1,-1"),
        (("ROWS", "--tensor-split", ",".join(["1"] * 40), "-m", "TINY"), "40 shares"),
        (("ROWS", "--lora", "a.gguf:x", "-m", "TINY"), "--lora a.gguf:x"),
        (("ROWS", "--lora", "a.gguf", "-m", "TINY"), "a.gguf"),
        (("ROWS", "--tensor-split", "a,b", "-m", "TINY"), "--tensor-split a,b"),
        (("ROWS", "--logit-bias", "a", "-m", "TINY"), "--logit-bias a"),
        (("ROWS", "--template-kwargs", "[]", "-m", "TINY"), "--template-kwargs is []"),
        (("ROWS", "--chat-template", "none.jinja", "-m", "TINY"), "none.jinja"),
        (("ROWS", "--logit-bias", "999:1", "-m", "TINY"), "999"),
        (("ROWS", "-o", "ROWS", "-m", "TINY"), "is one of the inputs"),
        (("ROWS", "--ctx", "0"), "ctx is 0"),
        (("ROWS", "--output-format", "xml"), "xml"),
    ],
)
def test_a_mistake_is_one_message_and_exit_code_2(
    rows: Path, tiny_model: Path, arguments: tuple[str, ...], message: str
) -> None:
    names = {"ROWS": str(rows), "TINY": str(tiny_model)}
    ran = cbatch("run", *(names.get(word, word) for word in arguments))
    assert ran.code == 2
    assert message in ran.err
    assert not Path(f"{rows}.cbatch").exists()


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")
@pytest.mark.parametrize("arguments", [["models"], ["doctor"], ["trace", "show", "traces/poisson.parquet"]])
def test_a_standard_output_that_takes_nothing_is_told(arguments: list[str]) -> None:
    with open("/dev/full", "wb") as full:
        done = subprocess.run(
            command(*arguments), stdout=full, stderr=subprocess.PIPE, cwd=EXAMPLES.parent, check=False
        )
    err = done.stderr.decode()
    assert "Traceback" not in err
    assert "No space left on device" in err
