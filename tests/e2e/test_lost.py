"""Nothing that is finished is lost: workers that die, full disks, inputs that change, and the same command again."""

from __future__ import annotations

import gzip
import json
import os
import resource
import shutil
import signal
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.csv
import pyarrow.parquet as pq
import pytest

from tests.e2e.command import Ran, await_rows, cbatch, command, results, run_json, table, write_rows
from tests.e2e.kills import kill_again_and_again, undisturbed


@pytest.fixture
def rows(tmp_path: Path) -> Path:
    return write_rows(
        tmp_path / "rows.jsonl",
        [{"id": f"r{i}", "prompt": f"Prompt number {i}", "max_tokens": 2 + i % 5, "label": i} for i in range(200)],
    )


def options(model: Path, out: Path, *more: object) -> tuple[object, ...]:
    return ("-m", model, "-t", 1, "-q", "--ignore-eos", "--temperature", 0.8, "-o", out, *more)


def crashing(what: str, row: str, *arguments: object) -> Ran:
    line = [sys.executable, "-m", "tests.e2e.crashing", what, row, *map(str, arguments)]
    done = subprocess.run(line, capture_output=True, text=True, timeout=300, check=False)
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def test_killed_again_and_again(tmp_path: Path, tiny_model: Path) -> None:
    found = kill_again_and_again(tmp_path, tiny_model, rows=300, kills=6, seed=1, longest_s=3)
    assert found.lost == []
    assert results(tmp_path / "out") == undisturbed(tmp_path, tiny_model)
    assert [row["row"] for row in results(tmp_path / "out")] == list(range(1, 301))
    requests = table(tmp_path / "out" / "requests.parquet")
    assert sorted(row["row"] for row in requests) == list(range(1, 301))


def test_a_row_that_kills_the_worker_is_found(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    ran = crashing("abort", "r117", "run", rows, *options(tiny_model, tmp_path / "out"))
    assert ran.code == 3, ran.err
    found = results(tmp_path / "out")
    assert [row["id"] for row in found if row["error_code"] == "crashed"] == ["r117"]
    assert "SIGABRT" in found[117]["error"]
    assert 1 <= ran.err.count("starting it again") <= 3
    assert cbatch("run", rows, *options(tiny_model, tmp_path / "good")).code == 0
    good = results(tmp_path / "good")
    assert [row for row in found if row["id"] != "r117"] == [row for row in good if row["id"] != "r117"]


def test_a_row_that_stalls_the_worker_is_found(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    few = ("--limit", 12, "--max-num-seqs", 3, "--stall-timeout", 2)
    ran = crashing("stall", "r7", "run", rows, *options(tiny_model, tmp_path / "out", *few))
    assert ran.code == 3, ran.err
    assert [row["id"] for row in results(tmp_path / "out") if row["error_code"] == "crashed"] == ["r7"]
    assert "no sign of life for 2 s" in ran.err


def test_a_death_in_every_batch_ends_with_a_diagnosis(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    ran = crashing("abort", "any", "run", rows, *options(tiny_model, tmp_path / "out"))
    assert ran.code == 1
    assert "cbatch doctor" in ran.err
    assert "the same command goes on from there" in ran.err
    assert ran.err.count("starting it again") < 6


def test_without_a_parent_a_death_is_a_death(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    arguments = ("run", rows, *options(tiny_model, tmp_path / "out"))
    assert crashing("once", "r117", *arguments, "--no-supervise").code == -signal.SIGKILL
    again = cbatch(*arguments)
    assert again.code == 0, again.err
    assert "resumed" in again.out
    assert len(results(tmp_path / "out")) == 200


def test_standard_input_outlives_a_worker(tmp_path: Path, tiny_model: Path, rows: Path) -> None:
    line = [sys.executable, "-m", "tests.e2e.crashing", "once", "r117", "run", "-"]
    line += map(str, options(tiny_model, tmp_path / "out"))
    with subprocess.Popen(line, stdin=subprocess.PIPE, stderr=subprocess.PIPE) as process:
        _, err = process.communicate(rows.read_bytes(), timeout=100)
    assert process.returncode == 0, err
    assert b"starting it again" in err
    assert cbatch("run", rows, *options(tiny_model, tmp_path / "good")).code == 0
    assert results(tmp_path / "out") == results(tmp_path / "good")


def test_standard_input_isnt_taken_for_another_one(tmp_path: Path, tiny_model: Path) -> None:
    arguments = ("run", "-", *options(tiny_model, tmp_path / "out"))
    first, other = (f'{{"prompt": "{name}", "max_tokens": 2}}\n'.encode() for name in ("first", "other"))
    assert cbatch(*arguments, stdin=first).code == 0
    same = cbatch(*arguments, stdin=first)
    assert (same.code, same.out.count("is complete: 1 rows")) == (0, 1), same.err
    refused = cbatch(*arguments, stdin=other)
    assert refused.code == 2
    assert "stdin begins differently" in refused.err
    assert cbatch(*arguments, "--no-supervise", stdin=other).code == 2
    assert [row["row"] for row in results(tmp_path / "out")] == [1]
    longer = cbatch(*arguments, stdin=first + other)
    assert longer.code == 0, longer.err
    assert [row["row"] for row in results(tmp_path / "out")] == [1, 2]
    head = run_json(tmp_path / "out")["identity"]["inputs"][0]["head_bytes"]
    assert head == len(first + other)


def test_messages_that_nobody_reads_are_nothing_to_die_of(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    line = [sys.executable, "-m", "tests.e2e.crashing", "once", "r17", "run", str(rows)]
    line += [str(option) for option in options(tiny_model, tmp_path / "out", "--limit", 30) if option != "-q"]
    reader, writer = os.pipe()
    os.close(reader)
    assert subprocess.run(line, stdout=subprocess.DEVNULL, stderr=writer, timeout=100, check=False).returncode == 0
    os.close(writer)
    assert len(results(tmp_path / "out")) == 30


def test_a_worker_that_dies_early_has_the_next_one_start_over(tmp_path: Path, tiny_model: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", [{"prompt": "a", "max_tokens": 2}])
    arguments = ("run", few, *options(tiny_model, tmp_path / "out"))
    assert cbatch(*arguments).code == 0
    forced = crashing("early", "any", *arguments, "--force")
    assert forced.code == 0, forced.err
    assert "starting it again" in forced.err
    assert len(results(tmp_path / "out")) == len(results(tmp_path / "out.1")) == 1


@pytest.mark.parametrize("name", ["out", "answers.csv", "answers.jsonl"])
def test_times_that_python_cant_hold(tmp_path: Path, tiny_model: Path, name: str) -> None:
    until = pa.array([253402300800000000, 0], pa.timestamp("us"))
    pq.write_table(pa.table({"prompt": ["a", "b"], "until": until}), tmp_path / "rows.parquet")
    ran = cbatch("run", tmp_path / "rows.parquet", *options(tiny_model, tmp_path / name, "--max-tokens", 2))
    assert ran.code == 0, ran.err
    if name == "out":
        found = pq.read_table(tmp_path / "out" / "results")["until"].cast(pa.int64()).to_pylist()
        assert found == [253402300800000000, 0]
    else:
        assert "10000-01-01" in (tmp_path / name).read_text("utf-8")


def test_the_same_command_again_has_nothing_to_do(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    arguments = ("run", rows, *options(tiny_model, tmp_path / "out"))
    assert cbatch(*arguments).code == 0
    before = results(tmp_path / "out")
    again = cbatch(*arguments)
    assert again.code == 0
    assert "is complete: 200 rows" in again.out
    told = json.loads(cbatch(*arguments, "--summary", "json").out)
    assert told["rows_ok"] == 200
    assert "is complete" in told["notes"][0]
    assert results(tmp_path / "out") == before


@pytest.mark.parametrize(
    ("change", "message"),
    [
        (("--temperature", 0.5), "--temperature was 0.8 and is 0.5"),
        (("--template", "Say: {{ prompt }}"), "--template was not given and is 'Say: {{ prompt }}'"),
        (("--limit", 5), "--limit was not given and is 5"),
        (("--output-format", "jsonl"), "--output-format was 'parquet' and is 'jsonl'"),
    ],
)
def test_another_job_is_refused_with_the_difference(
    rows: Path, tiny_model: Path, tmp_path: Path, change: tuple[object, ...], message: str
) -> None:
    few = write_rows(tmp_path / "few.jsonl", [{"prompt": "a", "max_tokens": 2}])
    assert cbatch("run", few, *options(tiny_model, tmp_path / "out")).code == 0
    refused = cbatch("run", few, *options(tiny_model, tmp_path / "out", *change))
    assert refused.code == 2
    assert message in refused.err
    assert "--force" in refused.err


def test_an_input_that_changed_is_refused_and_force_keeps_the_old(tiny_model: Path, tmp_path: Path) -> None:
    few = write_rows(tmp_path / "few.jsonl", [{"prompt": "a", "max_tokens": 2}])
    arguments = ("run", few, *options(tiny_model, tmp_path / "out"))
    assert cbatch(*arguments).code == 0
    write_rows(few, [{"prompt": "a", "max_tokens": 2}, {"prompt": "b", "max_tokens": 2}])
    refused = cbatch(*arguments)
    assert refused.code == 2
    assert "few.jsonl had" in refused.err
    forced = cbatch(*arguments, "--force")
    assert forced.code == 0, forced.err
    assert (len(results(tmp_path / "out")), len(results(tmp_path / "out.1"))) == (2, 1)
    shutil.copy(few, tmp_path / "copy.jsonl")  # the same content under another name is the same job
    assert "is complete" in cbatch("run", tmp_path / "copy.jsonl", *options(tiny_model, tmp_path / "out")).out


def test_failed_rows_stay_unless_they_are_to_be_tried_again(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    arguments = ("run", rows, *options(tiny_model, tmp_path / "out"))
    assert crashing("abort", "r3", *arguments).code == 3
    again = cbatch(*arguments)
    assert again.code == 3
    assert "1 of them failed" in again.out
    retried = cbatch(*arguments, "--retry-failed")
    assert retried.code == 0, retried.err
    assert cbatch("run", rows, *options(tiny_model, tmp_path / "good")).code == 0
    assert results(tmp_path / "out") == results(tmp_path / "good")


def test_stopped_and_gone_on_with(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    slow = write_rows(tmp_path / "slow.jsonl", [{"prompt": f"row {i}", "max_tokens": 300} for i in range(40)])
    arguments = ("run", slow, *options(tiny_model, tmp_path / "out", "--max-num-seqs", 2))
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    await_rows(process, tmp_path / "out")
    time.sleep(1)
    process.send_signal(signal.SIGTERM)
    process.communicate(timeout=60)
    assert process.returncode == 130
    some = len(results(tmp_path / "out"))
    assert 0 < some < 40
    again = cbatch(*arguments)
    assert again.code == 0, again.err
    assert f"resumed: {some} rows had been finished before" in again.out
    assert cbatch("run", slow, *options(tiny_model, tmp_path / "good")).code == 0
    assert results(tmp_path / "out") == results(tmp_path / "good")
    sessions = run_json(tmp_path / "out")["sessions"]
    assert [session["status"] for session in sessions] == ["aborted"]
    times = [(step["start_ns"], step["end_ns"]) for step in table(tmp_path / "out" / "steps.parquet")]
    assert times == sorted(times)


def test_two_at_once(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    slow = write_rows(tmp_path / "slow.jsonl", [{"prompt": f"row {i}", "max_tokens": 1500} for i in range(60)])
    arguments = ("run", slow, *options(tiny_model, tmp_path / "out", "--max-num-seqs", 2))
    first = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE)
    while not (tmp_path / "out" / "run.json").exists():
        assert first.poll() is None
        time.sleep(0.05)
    second = cbatch(*arguments)
    assert second.code == 2
    assert "another cbatch (pid" in second.err
    first.send_signal(signal.SIGTERM)
    first.communicate(timeout=60)
    assert first.returncode == 130


def limited(size: int, *arguments: object) -> Ran:
    """A command whose files can't grow past so many bytes."""
    done = subprocess.run(
        command(*arguments),
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
        preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_FSIZE, (size, size)),
    )
    assert "Traceback" not in done.stderr, done.stderr
    return Ran(done.returncode, done.stdout, done.stderr)


def test_a_disk_that_is_full(tiny_model: Path, tmp_path: Path) -> None:
    many = write_rows(tmp_path / "many.jsonl", [{"prompt": f"row {i}", "max_tokens": 40} for i in range(1500)])
    arguments = ("run", many, *options(tiny_model, tmp_path / "out"))
    full = limited(60_000, *arguments)
    assert full.code == 1
    assert "can't be written" in full.err
    again = cbatch(*arguments)
    assert again.code == 0, again.err
    assert "resumed" in again.out
    assert [row["row"] for row in results(tmp_path / "out")] == list(range(1, 1501))


@pytest.mark.skipif(shutil.which("unshare") is None, reason="there is no unshare here")
def test_a_small_file_system(tiny_model: Path, tmp_path: Path) -> None:
    many = write_rows(tmp_path / "many.jsonl", [{"prompt": f"row {i}", "max_tokens": 40} for i in range(1500)])
    out = tmp_path / "small"
    out.mkdir()
    line = " ".join(command("run", many, *options(tiny_model, out / "out")))
    script = f"mount -t tmpfs -o size=100k none {out} || exit 77; {line}; code=$?; cp -r {out}/out {tmp_path}/kept"
    done = subprocess.run(
        ["unshare", "-rm", "sh", "-c", f"{script}; exit $code"],
        capture_output=True,
        text=True,
        timeout=100,
        check=False,
    )
    if done.returncode in (1, 77) and "cbatch" not in done.stderr:
        pytest.skip("no file system can be mounted here")
    assert done.returncode == 1, done.stderr
    assert "No space left on device" in done.stderr
    shutil.move(tmp_path / "kept", out / "out")
    again = cbatch("run", many, *options(tiny_model, out / "out"))
    assert again.code == 0, again.err
    assert [row["row"] for row in results(out / "out")] == list(range(1, 1501))


def test_an_output_that_cannot_be_written(rows: Path, tiny_model: Path) -> None:
    ran = cbatch("run", rows, *options(tiny_model, Path("/proc/out")))
    assert ran.code == 2
    assert "/proc/out can't be used as the output directory" in ran.err


def test_an_output_that_vanishes(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    slow = write_rows(tmp_path / "slow.jsonl", [{"prompt": f"row {i}", "max_tokens": 300} for i in range(200)])
    arguments = ("run", slow, *options(tiny_model, tmp_path / "out", "--max-num-seqs", 2))
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_rows(process, tmp_path / "out")
    shutil.rmtree(tmp_path / "out")
    _, err = process.communicate(timeout=60)
    assert process.returncode == 1, err
    assert "Traceback" not in err
    assert str(tmp_path / "out") in err


def test_a_gzip_that_breaks_off(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    whole = gzip.compress(rows.read_bytes())
    (tmp_path / "cut.jsonl.gz").write_bytes(whole[: len(whole) * 2 // 3])
    ran = cbatch("run", tmp_path / "cut.jsonl.gz", *options(tiny_model, tmp_path / "out"))
    assert ran.code == 1
    assert "cut.jsonl.gz" in ran.err
    assert len(results(tmp_path / "out")) > 50


def test_an_input_that_changes_meanwhile(tiny_model: Path, tmp_path: Path) -> None:
    slow = write_rows(tmp_path / "slow.jsonl", [{"prompt": f"row {i}", "max_tokens": 200} for i in range(60)])
    arguments = ("run", slow, *options(tiny_model, tmp_path / "out", "--max-num-seqs", 2))
    process = subprocess.Popen(command(*arguments), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)
    await_rows(process, tmp_path / "out")
    with slow.open("a") as file:
        file.write('{"prompt": "one more"}\n')
    _, err = process.communicate(timeout=100)
    assert process.returncode == 1, err
    assert "slow.jsonl" in err
    assert "Traceback" not in err
    assert len(results(tmp_path / "out")) == 60


FORMS: dict[str, Any] = {
    "answers.parquet": lambda path: pq.read_table(path).to_pylist(),
    "answers.csv": lambda path: pa.csv.read_csv(path).to_pylist(),
}


@pytest.mark.parametrize("name", FORMS)
def test_a_single_file(rows: Path, tiny_model: Path, tmp_path: Path, name: str) -> None:
    ran = cbatch("run", rows, *options(tiny_model, tmp_path / name))
    assert ran.code == 0, ran.err
    found = FORMS[name](tmp_path / name)
    assert [row["row"] for row in found] == list(range(1, 201))
    assert [row["label"] for row in found] == list(range(200))
    assert (tmp_path / f"{name}.cbatch" / "results").exists() == name.endswith(".csv")  # to retry rows from
    assert len(table(tmp_path / f"{name}.cbatch" / "requests.parquet")) == 200
    assert "is complete" in cbatch("run", rows, *options(tiny_model, tmp_path / name)).out
    os.remove(tmp_path / name)
    assert cbatch("run", rows, *options(tiny_model, tmp_path / name)).code in (0, 2)


def test_a_single_file_of_lines(rows: Path, tiny_model: Path, tmp_path: Path) -> None:
    assert cbatch("run", rows, *options(tiny_model, tmp_path / "answers.jsonl")).code == 0
    lines = [json.loads(line) for line in (tmp_path / "answers.jsonl").read_text("utf-8").splitlines()]
    assert [line["custom_id"] for line in lines] == [f"r{i}" for i in range(200)]


@pytest.mark.parametrize(
    "name", ["rows.csv", "rows.parquet", "rows.arrow", "rows.json", "rows.jsonl.gz", "rows.jsonl.zst"]
)
def test_every_form_gives_the_same_answers(rows: Path, tiny_model: Path, tmp_path: Path, name: str) -> None:
    few = [json.loads(line) for line in rows.read_text().splitlines()[:20]]
    told, path = pa.Table.from_pylist(few), tmp_path / name
    if name.endswith(".csv"):
        pa.csv.write_csv(told, path)
    elif name.endswith(".parquet"):
        pq.write_table(told, path)
    elif name.endswith(".arrow"):
        with pa.ipc.new_file(path, told.schema) as writer:
            writer.write_table(told)
    elif name.endswith(".json"):
        path.write_text(json.dumps(few))
    else:
        with pa.CompressedOutputStream(path, "gzip" if name.endswith("gz") else "zstd") as stream:
            stream.write("".join(json.dumps(row) + "\n" for row in few).encode())
    lines = write_rows(tmp_path / "few.jsonl", few)
    assert cbatch("run", lines, *options(tiny_model, tmp_path / "lines")).code == 0
    ran = cbatch("run", path, *options(tiny_model, tmp_path / "form"))
    assert ran.code == 0, ran.err
    assert results(tmp_path / "form") == results(tmp_path / "lines")
