from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.traces.synthesis import Synthesiser
from cbatch.traces.trace import TraceRequest
from cbatch.traces.writer import TraceWriter
from tests.cli.trace_command import mistake, trace

REQUESTS = [
    TraceRequest(0, prompt_tokens=20, output_tokens=3),
    TraceRequest(1, prompt="Às armas,\n", output_tokens=2, priority=-1),
    TraceRequest(2, prompt_tokens=7),
    TraceRequest(3, prompt_tokens=20, output_tokens=5, prefix_ids=(4,), prefix_block=8),
    TraceRequest(3, prompt_tokens=30, output_tokens=5, prefix_ids=(4,), prefix_block=8),
]


@pytest.fixture
def path(tmp_path: Path) -> Path:
    path = tmp_path / "t.parquet"
    with TraceWriter(path) as writer:
        for request in REQUESTS:
            writer.add(request)
    return path


def written(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text("utf-8").splitlines()]


def test_a_line_for_each_request(path: Path, tmp_path: Path, tiny_model: Path, tiny: Model) -> None:
    out = tmp_path / "p.jsonl"
    assert trace("prompts", path, "-o", out, "-m", tiny_model) == f"{out}: 5 prompts for /v1/completions\n"
    lines = written(out)
    assert [line["custom_id"] for line in lines] == ["1", "2", "3", "4", "5"]
    assert {(line["method"], line["url"]) for line in lines} == {("POST", "/v1/completions")}
    bodies = [line["body"] for line in lines]
    assert bodies[1] == {"prompt": "Às armas,\n", "max_tokens": 2, "ignore_eos": True, "priority": -1}
    assert bodies[2].keys() == {"prompt"}
    tokenizer = Tokenizer(tiny)
    synthesiser = Synthesiser(tokenizer, tiny.n_vocab, seed=0)  # as a replay does
    for number in (1, 3, 4, 5):
        request, body = REQUESTS[number - 1], bodies[number - 1]
        tokens = tokenizer.with_bos(tokenizer.tokenize(body["prompt"], parse_special=False))
        assert tokens.tolist() == synthesiser.prompt(request, number).tolist()
        assert body.get("max_tokens") == request.output_tokens


def test_the_seed_changes_the_texts(path: Path, tmp_path: Path, tiny_model: Path) -> None:
    out = [tmp_path / f"{i}.jsonl" for i in range(3)]
    for name, seed in zip(out, (0, 0, 1), strict=True):
        trace("prompts", path, "-o", name, "-m", tiny_model, "--seed", seed)
    assert written(out[0]) == written(out[1]) != written(out[2])


def test_nothing_is_overwritten_without_force(path: Path, tmp_path: Path, tiny_model: Path) -> None:
    out = tmp_path / "p.jsonl"
    out.write_text("mine")
    call = ("prompts", path, "-o", out, "-m", tiny_model)
    assert "exists: give another name, or --force" in mistake(*call)
    assert out.read_text() == "mine"
    trace(*call, "--force")
    assert len(written(out)) == 5


def test_mistakes_leave_no_file(path: Path, tmp_path: Path, tiny_model: Path) -> None:
    out = tmp_path / "p.jsonl"
    assert "absent doesn't exist" in mistake("prompts", path, "-o", out, "-m", tmp_path / "absent")
    assert "doesn't exist" in mistake("prompts", tmp_path / "absent", "-o", out, "-m", tiny_model)
    assert "can't be written: File name too long" in mistake("prompts", path, "-o", "x" * 300, "-m", tiny_model)
    assert list(tmp_path.iterdir()) == [path]


def test_a_prompt_that_is_the_bos_alone_has_no_text(tmp_path: Path, tiny_model: Path, tiny: Model) -> None:
    assert Tokenizer(tiny).add_bos
    path, out = tmp_path / "t.parquet", tmp_path / "p.jsonl"
    with TraceWriter(path) as writer:
        writer.add(TraceRequest(0, prompt_tokens=2))
        writer.add(TraceRequest(0, prompt_tokens=1))
    message = mistake("prompts", path, "-o", out, "-m", tiny_model)
    assert message.startswith(f"{path}, row 2: prompt_tokens is 1, which is the model's BOS alone")
    assert list(tmp_path.iterdir()) == [path]


def test_a_prompt_that_memory_does_not_hold(tmp_path: Path, tiny_model: Path) -> None:
    path = tmp_path / "t.parquet"
    with TraceWriter(path) as writer:
        writer.add(TraceRequest(0, prompt_tokens=2**31 - 1))
    message = mistake("prompts", path, "-o", tmp_path / "p.jsonl", "-m", tiny_model)
    assert message.startswith(f"{path}, row 1: prompt_tokens is 2147483647, more than any model takes")
    assert list(tmp_path.iterdir()) == [path]
