"""The helpers of the comparison with peers, without any peer."""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

import numpy as np
import pyarrow.parquet as pq
import pytest

from tests.benchmarks.bench_peers import rotated
from tests.benchmarks.peers import batched_bench, server
from tests.benchmarks.peers.cbatch_engine import requests_of
from tests.benchmarks.peers.clients import HOST, drive, predicted
from tests.benchmarks.peers.contention import CpuTime
from tests.benchmarks.peers.flags import Flags, total_cells
from tests.benchmarks.peers.jobs import BenchJob, BenchRow, make_jobs
from tests.benchmarks.peers.measured import Measured, PeerFailed
from tests.benchmarks.peers.results import Result, Results

WORDS = np.arange(100, 1100, dtype=np.int32)
FLAGS = Flags(slots=32, type_k="bf16", type_v="bf16", flash_attn="on", ubatch=512, threads=2, unified=False)


def test_jobs_have_the_shapes_that_the_goals_are_for() -> None:
    u, r, p = make_jobs(["U", "R", "P"], WORDS)
    assert {(len(row.prompt), row.output) for row in u.rows} == {(128, 64)}
    assert (len(u.rows), len(r.rows), len(p.rows)) == (64, 96, 64)
    assert all(32 <= len(row.prompt) <= 256 and 8 <= row.output <= 192 for row in r.rows)
    assert {(len(row.prompt), row.output) for row in p.rows} == {(544, 32)}
    assert len({row.prompt[:512] for row in p.rows}) == 1
    assert len({row.prompt[512:] for row in p.rows}) == 64
    assert (u.output_tokens, u.cells, p.cells) == (4096, 192, 576)


def test_jobs_are_the_same_each_time() -> None:
    assert make_jobs(["R"], WORDS) == make_jobs(["R"], WORDS)


def test_first_rows_of_a_job() -> None:
    (job,) = make_jobs(["U"], WORDS, rows=3)
    assert len(job.rows) == 3
    assert [row.output for row in job.first(2, 4).rows] == [4, 4]


def test_requests_go_past_end_tokens() -> None:
    (job,) = make_jobs(["U"], WORDS, rows=1)
    ((ref, request),) = requests_of(job)
    assert ref.number == 1
    assert tuple(request.prompt) == job.rows[0].prompt
    assert request.sampling.ignore_eos
    assert not request.end_tokens


def test_flags_as_arguments() -> None:
    assert " ".join(FLAGS.arguments()) == "-t 2 -b 512 -ub 512 -fa on -ctk bf16 -ctv bf16"
    assert str(FLAGS) == "bf16 KV, FA on, ubatch 512"


@pytest.mark.parametrize(("cells", "total"), [(192, 8 * 256), (255, 8 * 256), (256, 8 * 512)])
def test_a_context_holds_a_request_in_each_slot(cells: int, total: int) -> None:
    assert total_cells(8, cells) == total


def test_command_of_llama_server() -> None:
    command = server.llama_server(Path("llama-server"), Path("m.gguf"), 8, 192, ["-fa", "on"])
    assert " ".join(command) == "llama-server -m m.gguf --host 127.0.0.1 -np 8 -c 2048 -fa on"


def test_batched_bench_is_given_the_shape_of_the_job() -> None:
    (job,) = make_jobs(["U"], WORDS)
    called = " ".join(batched_bench.command(Path("bench"), Path("m.gguf"), job, FLAGS))
    assert called.startswith("bench -m m.gguf -npp 128 -ntg 64 -npl 32 -c 8192 -t 2 -b 512")


def test_time_of_batched_bench_is_that_of_prompts_and_outputs() -> None:
    line = json.dumps({"pp": 128, "tg": 64, "pl": 32, "t_pp": 2.0, "t_tg": 6.0, "t": 8.0})
    measured = batched_bench.parse(f"loading\n{line}\n\nperf\n")
    assert measured == Measured(8.0, 2048)
    assert measured.tokens_per_s == 256
    with pytest.raises(PeerFailed, match="no such file"):
        batched_bench.parse("no such file")


def test_each_is_measured_early_and_late() -> None:
    assert [rotated("abcdef", turn, 3) for turn in range(3)] == [list("abcdef"), list("cdefab"), list("efabcd")]


class _Completions(BaseHTTPRequestHandler):
    """Answers as llama-server does, with one token short where the prompt begins with 0."""

    protocol_version = "HTTP/1.1"

    def do_POST(self) -> None:
        asked = json.loads(self.rfile.read(int(self.headers["Content-Length"])))
        assert asked["ignore_eos"] is True
        content = json.dumps({"tokens_predicted": asked["n_predict"] - (asked["prompt"][0] == 0)}).encode()
        self.send_response(200)
        self.send_header("Content-Length", str(len(content)))
        self.end_headers()
        self.wfile.write(content)

    def log_message(self, *_: object) -> None:
        pass


@contextmanager
def completions() -> Iterator[int]:
    with ThreadingHTTPServer((HOST, 0), _Completions) as httpd:
        thread = threading.Thread(target=httpd.serve_forever, args=(0.01,))
        thread.start()
        yield httpd.server_address[1]
        httpd.shutdown()
        thread.join()


def test_clients_answer_every_row() -> None:
    job = BenchJob("test", tuple(BenchRow((i + 1,), i + 1) for i in range(7)))
    with completions() as port:
        measured = drive(port, job, slots=2)
    assert measured.output_tokens == 28
    assert measured.seconds > 0


def test_a_server_that_gives_too_little_is_found_out() -> None:
    with completions() as port, pytest.raises(PeerFailed, match="gave 4 tokens in place of 5"):
        drive(port, BenchJob("test", (BenchRow((0,), 5),)), slots=2)


def test_clients_stop_when_one_fails() -> None:
    rows = tuple(BenchRow((1,), 1) for _ in range(1000))
    with pytest.raises(PeerFailed, match="can't be asked"):
        drive(server._free_port(), BenchJob("test", rows), slots=2)


def test_an_error_is_no_answer() -> None:
    with pytest.raises(PeerFailed, match="too large"):
        predicted(b'{"error": {"message": "too large"}}')


def test_a_server_that_ends_at_once_is_told_with_its_log() -> None:
    with pytest.raises(PeerFailed, match="bad model"), server.serving(["sh", "-c", "echo bad model; exit 1"], {}):
        pass


def results_of(*rates: tuple[str, str, int, float]) -> Results:
    results = Results()
    for peer, flags, repetition, rate in rates:
        results.add(Result("U", peer, flags, repetition, Measured(1 / rate, 1), foreign_cpus=0.0))
    return results


def test_ratios_are_within_a_repetition(tmp_path: Path) -> None:
    results = results_of(("cbatch", "", 0, 300), ("loop", "", 0, 100), ("loop", "", 1, 200), ("cbatch", "", 1, 400))
    results.write(tmp_path / "ratios.parquet")
    table = pq.read_table(tmp_path / "ratios.parquet").to_pylist()
    assert [row["ratio"] for row in table if row["peer"] == "loop"] == pytest.approx([3, 2])
    assert "2.50 (2.00..3.00)" in "\n".join(results.table("U"))


def test_without_cbatch_there_is_no_ratio(tmp_path: Path) -> None:
    results = results_of(("loop", "", 0, 100))
    results.write(tmp_path / "ratios.parquet")
    assert pq.read_table(tmp_path / "ratios.parquet")["ratio"].to_pylist() == [None]
    assert "loop" in "\n".join(results.table("U"))


def test_company_is_told() -> None:
    results = results_of(("loop", "", 0, 100))
    results.add(Result("U", "loop", "", 1, Measured(1.0, 100), foreign_cpus=0.7))
    assert list(results.table("U"))[-1].startswith("  1 measurements had company")


def test_cpu_time_of_others() -> None:
    before, after = CpuTime(wall=0.0, busy=100.0, own=10.0), CpuTime(wall=10.0, busy=120.0, own=25.0)
    assert after.foreign_since(before) == 0.5
    assert after.foreign_since(before._replace(own=0.0)) == 0.0


def test_the_best_number_of_slots_is_marked() -> None:
    slow, fast = ("llama-server", "8 slots, defaults", 0, 100.0), ("llama-server", "16 slots, defaults", 0, 200.0)
    tuned = ("llama-server", "32 slots, bf16", 0, 300.0)
    lines = list(results_of(slow, fast, tuned).table("U"))
    assert [line[0] for line in lines[1:]] == [" ", "*", " "]
