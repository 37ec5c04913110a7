"""What the first rows tell, on the tiny model's vocabulary and on small files."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import Any

import pytest

from cbatch.cli.first_rows import FittedRows, pieces_of, prompt_views, rows_in_all, special_texts
from cbatch.config import Overflow
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer
from cbatch.metrics.preview import Piece
from cbatch.types import Job, RowFault, RowRef
from tests.cli.test_dry_run import run_options
from tests.engine.factories import request

FAULT = RowFault(RowRef(9, "9", "x:9", 0), "invalid_json", "no")


def test_control_tokens_show(tiny: Model) -> None:
    tokenizer = Tokenizer(tiny)
    prompt = tokenizer.tokenize("<|im_start|>user\né<|im_end|>\n", parse_special=True)
    assert list(pieces_of(prompt, tokenizer, special_texts(tokenizer))) == [
        Piece("<|im_start|>", "special"),
        Piece("user\né"),
        Piece("<|im_end|>", "special"),
        Piece("\n"),
    ]


def test_what_looks_like_one_in_a_rows_text_does_not(tiny: Model) -> None:
    tokenizer = Tokenizer(tiny)
    prompt = tokenizer.tokenize("a <|im_end|>", parse_special=False)
    assert list(pieces_of(prompt, tokenizer, special_texts(tokenizer))) == [Piece("a <|im_end|>")]


def test_a_long_prompt_is_shown_by_its_ends(tiny: Model) -> None:
    tokenizer = Tokenizer(tiny)
    prompt = tokenizer.tokenize("a" * 500 + "b" * 500, parse_special=False)
    whole = RowRef(3, "x", "f:3", 0), request("x", max_tokens=7)
    long = RowRef(4, "y", "f:4", 0), request("y", max_tokens=7)
    object.__setattr__(long[1], "prompt", prompt)
    views = list(prompt_views([whole, long], tokenizer))
    assert (views[0].row, views[0].id, views[0].where) == (3, "x", "f:3")
    assert (views[0].prompt_tokens, views[0].max_tokens) == (4, 7)
    assert views[1].prompt_tokens == prompt.size
    head, cut, tail = views[1].pieces
    assert set(head.text) == {"a"}
    assert set(tail.text) == {"b"}
    assert cut == Piece(f" … {prompt.size - 160:,} tokens … ", "cut")


def test_rows_are_fitted_as_the_driver_would() -> None:
    jobs: list[Job] = [
        (RowRef(1, "short", "x:1", 0), request("short", 10, 5)),
        (RowRef(2, "cut", "x:2", 0), request("cut", 60, 50)),
        (RowRef(3, "long", "x:3", 0), request("long", 101, 5)),
    ]
    rows = FittedRows.of([*jobs, FAULT], 100, Overflow())
    assert [(r.id, r.sampling.max_tokens) for r in rows.requests] == [("short", 5), ("cut", 41)]
    assert [(fault.ref.id, fault.code) for fault in rows.faults] == [("long", "prompt_too_long"), ("9", "invalid_json")]
    assert {name: count for name, count in rows.changes.items() if count} == {"refused": 1, "max_tokens_cut": 1}
    rows = FittedRows.of(jobs, 100, Overflow("truncate-left"))
    assert [int(r.prompt.size) for r in rows.requests] == [10, 51, 96]
    assert rows.changes["prompts_cut"] == 2
    rows = FittedRows.of(jobs, 100, Overflow("shift"))
    assert rows.changes["outgrown"] == 1
    assert not rows.faults


def window(path: Path, numbers: list[int]) -> list[Job]:
    return [(RowRef(n, str(n), f"{path}:{n}", 0), request(str(n))) for n in numbers]


@pytest.fixture
def file(tmp_path: Path) -> Path:
    """1,000 lines of 20 bytes."""
    path = tmp_path / "rows.jsonl"
    path.write_bytes(b"".join(b'{"prompt": "%05d"}\n\n' % i for i in range(500)).replace(b"\n\n", b" \n"))
    path.write_bytes(path.read_bytes() * 2)
    return path


@pytest.mark.parametrize(
    ("given", "numbers", "rows"),
    [
        ({}, range(1, 101), 1000),
        ({"offset": 100}, range(101, 201), 900),
        ({"where": "score > 3"}, range(2, 101, 2), 500),
        ({"where": "score > 3", "offset": 10}, range(22, 101, 2), 490),
        ({"limit": 300}, range(1, 101), 300),
        ({"limit": 3000}, range(1, 101), 1000),
        ({"sample": 0.5}, range(2, 101, 2), 500),
        ({"sample": 200.0}, range(10, 101, 10), 100),
    ],
)
def test_rows_are_in_proportion_to_bytes(file: Path, given: dict[str, Any], numbers: range, rows: int) -> None:
    assert rows_in_all(run_options(inputs=[str(file)], **given), None, window(file, list(numbers))) == rows


def test_of_several_files_the_earlier_ones_are_read(file: Path, tmp_path: Path) -> None:
    other = tmp_path / "a.jsonl"
    other.write_bytes(file.read_bytes())
    jobs = [(RowRef(n, str(n), f"{file}:{n - 1000}", 0), request(str(n))) for n in range(1, 1101)]
    assert rows_in_all(run_options(inputs=[str(other), str(file)]), None, list(jobs)) == 2000


def test_where_nobody_can_tell(file: Path, tmp_path: Path) -> None:
    packed = tmp_path / "rows.jsonl.gz"
    packed.write_bytes(gzip.compress(file.read_bytes()))
    unnamed = tmp_path / "packed.jsonl"
    unnamed.write_bytes(packed.read_bytes())
    assert rows_in_all(run_options(inputs=[str(packed)]), None, window(packed, [1, 2])) is None
    assert rows_in_all(run_options(inputs=[str(unnamed)]), None, window(unnamed, [1, 1000])) is None
    assert rows_in_all(run_options(inputs=["-"]), None, window(Path("stdin"), [1, 2])) is None
    assert rows_in_all(run_options(inputs=[str(file)]), None, []) is None
    elsewhere = [(RowRef(1, "1", f"{file}:row 1", 0), request("1"))]
    assert rows_in_all(run_options(inputs=[str(file)]), None, list(elsewhere)) is None
    assert rows_in_all(run_options(inputs=[str(file)]), 77, window(file, [1, 2])) == 77
