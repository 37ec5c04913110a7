from __future__ import annotations

import os
import shlex
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.traces.reader import read_trace
from tests.cli.trace_command import mistake, trace

TRACES = Path(__file__).parents[2] / "traces"
COMMANDS = [line for line in (TRACES / "README.md").read_text("utf-8").splitlines() if line.startswith("cbatch trace")]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "t.parquet"


def test_says_what_was_made_beside_what_was_asked(out: Path) -> None:
    lines = trace("gen", "-o", out, "-r", 2, "--num-requests", 50, "--output-tokens", "exponential:0.4").splitlines()
    requests = list(read_trace(out))
    span = (requests[-1].arrival_ns - requests[0].arrival_ns) / 1e9
    raised = lines[2].split()[1]
    assert lines[0] == f"{out}: 50 requests in {span:.1f} s, {49 / span:.2f} requests/s (asked: 2.00)"
    assert lines[1].startswith("  prompts: 6,400 tokens, mean 128.0; outputs: ")
    assert lines[2] == f"  changed: {raised} output tokens raised to 1"
    assert read_trace(out).manifest.changes == {"output_tokens_raised_to_1": int(raised)}


def test_defaults(out: Path) -> None:
    trace("gen", "-o", out, "-r", 2, "--num-requests", 3)
    source = read_trace(out).manifest.source
    assert source["arrival"] == {"kind": "poisson", "request_rate": 2.0, "burstiness": None}
    assert source["prompt_tokens"] == {"kind": "fixed", "tokens": 128}
    assert source["output_tokens"] == {"kind": "fixed", "tokens": 64}
    assert (source["prefixes"], source["seed"]) == (None, 0)


def test_a_burstiness_alone_means_gamma(out: Path) -> None:
    trace("gen", "-o", out, "-r", 2, "--burstiness", 0.5, "--duration", 20)
    manifest = read_trace(out).manifest
    assert manifest.source["arrival"] == {"kind": "gamma", "request_rate": 2.0, "burstiness": 0.5}
    assert manifest.request_rate == 2.0


def test_bursts_prefixes_and_priorities(out: Path) -> None:
    prefixes = ("--prefix-share", 0.5, "--num-prefixes", 1, "--prefix-block", 8)
    lines = trace("gen", "-o", out, "--arrival", "burst", "--num-requests", 4, *prefixes, "--priorities", "high:1")
    assert lines.splitlines() == [
        f"{out}: 4 requests, all at once",
        "  prompts: 512 tokens, mean 128.0; outputs: 256 tokens, mean 64.0",
        "  reuse: 38 % of prompt tokens are prefixes that came before",
    ]
    for request in read_trace(out):
        assert (request.prefix_ids, request.prefix_block, request.priority) == (tuple(range(8)), 8, -1)


def test_the_same_call_makes_the_same_bytes_and_needs_force(out: Path) -> None:
    call = ("gen", "-o", out, "-r", 2, "--num-requests", 30, "--seed", 5)
    trace(*call)
    first = out.read_bytes()
    assert mistake(*call) == f"{out} exists: give another name, or --force to replace it"
    trace(*call, "--force")
    assert out.read_bytes() == first


def test_lengths_of_another_trace(tmp_path: Path, out: Path) -> None:
    trace("gen", "-o", out, "-r", 1, "--num-requests", 20, "--prompt-tokens", "uniform:5:9")
    again = tmp_path / "again.parquet"
    trace("gen", "-o", again, "-r", 1, "--num-requests", 20, "--prompt-tokens", f"empirical:{out}")
    assert {request.prompt_tokens for request in read_trace(again)} <= {5, 6, 7, 8, 9}


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ("", "needs --request-rate"),
        ("-r 1", "give --num-requests or --duration"),
        ("-r nan --num-requests 5", "--request-rate is nan"),
        ("-r 1 --num-requests 0", "--num-requests is 0"),
        ("-r 1 --duration nan", "--duration is nan"),
        ("-r 1 --duration 0.0001", "no request arrives within --duration 0.0001"),
        ("--arrival often -r 1 --num-requests 5", "--arrival is 'often'"),
        ("-r 1 --burstiness nan --num-requests 5", "--burstiness is nan"),
        ("-r 1 --num-requests 5 --prompt-tokens many", "--prompt-tokens many: give 128, "),
        ("-r 1 --num-requests 5 --output-tokens empirical:absent", "absent doesn't exist"),
        ("-r 1 --num-requests 5 --prefix-share nan", "--prefix-share is nan"),
        ("-r 1 --num-requests 5 --num-prefixes 2", "--num-prefixes says nothing while no prefix is shared"),
        ("-r 1 --num-requests 5 --prefix-block 2", "--prefix-block says nothing while no prefix is shared"),
        ("-r 1 --num-requests 5 --priorities urgent:1", "--priorities urgent:1: give PRIORITY:WEIGHT"),
        (f"-r 1 --num-requests 5 --priorities {10**30}:1", f"a priority is {10**30}"),
    ],
)
def test_mistakes_leave_no_file(out: Path, options: str, message: str) -> None:
    assert message in mistake("gen", "-o", out, *options.split())
    assert list(out.parent.iterdir()) == []


def test_prefixes_that_nothing_shares_are_told(out: Path) -> None:
    lines = trace("gen", "-o", out, "-r", 1, "--num-requests", 3, "--prefix-share", 0.5, "--prefix-block", 128)
    assert lines.splitlines()[-1].startswith("  reuse: none, since no prompt begins with a block of one before it")


def test_outputs_that_can_not_be(tmp_path: Path) -> None:
    call = ("gen", "-r", 1, "--num-requests", 1, "--force", "-o")
    pipe, link = tmp_path / "pipe", tmp_path / "link.parquet"
    os.mkfifo(pipe)  # stands for a device, which a test that fails would replace for the whole machine
    link.symlink_to(tmp_path / "t.parquet")
    for other in (tmp_path, pipe, link):
        assert mistake(*call, other) == f"{other} isn't a plain file: give the name of a file to write"
    absent = tmp_path / "absent"
    assert mistake(*call, absent / "t.parquet") == f"there is no folder {absent}: make it, or give another name"
    assert "can't be written: File name too long" in mistake(*call, tmp_path / ("x" * 300))


def test_every_shipped_trace_has_its_command() -> None:
    made = {Path(shlex.split(command)[4]).name for command in COMMANDS}
    assert made == {path.name for path in TRACES.glob("*.parquet")} != set()


@pytest.mark.parametrize("command", COMMANDS)
def test_the_recorded_command_makes_the_shipped_trace(command: str, out: Path) -> None:
    _, _, _, option, name, *options = shlex.split(command)
    assert option == "-o"
    trace("gen", "-o", out, *options)
    shipped = TRACES.parent / name
    assert list(read_trace(out)) == list(read_trace(shipped))
    assert read_trace(out).manifest == read_trace(shipped).manifest
    assert shipped.stat().st_size < 20_000
    if pq.read_metadata(shipped).created_by == f"parquet-cpp-arrow version {pa.__version__}":
        assert out.read_bytes() == shipped.read_bytes()
