"""The main job on the real model: sensible answers, every row once, full slots, the same tokens as llama.cpp alone."""

from __future__ import annotations

import json
from itertools import pairwise
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pytest

from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.sampling import SamplingParams
from cbatch.types import Request
from tests.e2e.command import EXAMPLES, cbatch, results, table, write_rows
from tests.llama.running import answer, llama_engine

pytestmark = pytest.mark.e2e


def query(sql: str) -> Any:
    """The one value of a query, by DuckDB."""
    found = duckdb.sql(sql)
    assert found is not None
    return found.fetchall()[0][0]


def test_the_example_prompts_are_answered_sensibly_and_everybody_can_read_it(tmp_path: Path) -> None:
    out = tmp_path / "out"
    ran = cbatch("run", EXAMPLES / "prompts.jsonl", "-o", out, "--summary", "json")
    assert ran.code == 0, ran.err
    rows = (EXAMPLES / "prompts.jsonl").read_text("utf-8").splitlines()
    answers = {row["id"]: row for row in results(out)}
    assert len(answers) == len(rows) == json.loads(ran.out)["rows_ok"]
    assert "Paris" in answers["france"]["output_text"]
    assert "Tokyo" in answers["multi-turn"]["output_text"]
    assert "Beijing" in answers["chinese"]["output_text"]
    assert answers["sql"]["output_text"].startswith("SELECT")
    assert all(row["output_text"] and "<|im_" not in row["output_text"] for row in answers.values())
    files = str(out / "results" / "*.parquet")
    for name in ("requests", "steps"):
        path = str(out / f"{name}.parquet")
        count = len(table(Path(path)))
        assert query(f"SELECT count(*) FROM '{path}'") == count
        assert len(pd.read_parquet(path)) == len(pl.read_parquet(path)) == count
    assert query(f"SELECT count(*) FROM '{files}' WHERE category = 'chat'") == 1
    assert len(pd.read_parquet(out / "results")) == len(pl.read_parquet(files)) == len(rows)


def test_200_rows_of_mixed_lengths_over_32_slots(tmp_path: Path) -> None:
    rng = np.random.default_rng(0)
    words = "a ferry crosses the wide green river while two birds watch an old man read".split()  # noqa: SIM905
    rows: list[dict[str, Any]] = [
        {
            "id": f"row-{i}",
            "prompt": " ".join(rng.choice(words, rng.integers(2, 25))),
            "max_tokens": int(rng.integers(1, 13)),
        }
        for i in range(200)
    ]
    out = tmp_path / "out"
    ran = cbatch("run", write_rows(tmp_path / "rows.jsonl", rows), "-o", out, "--raw", "--ignore-eos", "-q")
    assert ran.code == 0, ran.err
    answers = {row["id"]: row for row in results(out)}
    assert len(results(out)) == len(answers) == 200
    for row in rows:
        assert answers[row["id"]]["output_tokens"] == row["max_tokens"]
        assert answers[row["id"]]["finish_reason"] == "length"
    steps = table(out / "steps.parquet")
    assert steps[0]["slots_total"] == 32
    for step, following in pairwise(steps):
        assert following["admitted"] == min(step["waiting"], step["finished"])
        assert following["slots_busy"] == 32 or following["waiting"] == 0
    assert sum(step["finished"] for step in steps) == 200


def test_the_tokens_are_those_of_the_plain_library(smollm2: Model) -> None:
    """Prompts of one ubatch, alone and in f32, against llama-cpp-python's own class with the same kernels."""
    from llama_cpp import Llama

    rng = np.random.default_rng(1)
    prompts = [rng.integers(10, 40_000, length).astype(np.int32) for length in (1, 7, 33, 120)]
    options: dict[str, Any] = {"n_ctx": 256, "n_threads": 2, "type_k": 0, "type_v": 0, "flash_attn": False}
    llama = Llama(str(resolve_model("smollm2")), verbose=False, **options)
    expected = []
    for prompt in prompts:
        llama.reset()  # type: ignore[no-untyped-call]
        tokens = llama.generate(prompt.tolist(), temp=0.0)
        expected.append([next(tokens) for _ in range(16)])
    llama.close()
    with llama_engine(smollm2, max_num_seqs=1, threads=2, kv_type="f32", flash_attn="off") as (engine, _):
        wanted = [Request(str(i), prompt, SamplingParams(max_tokens=16)) for i, prompt in enumerate(prompts)]
        found = answer(engine, wanted)
    assert [found[str(i)].token_ids.tolist() for i in range(len(prompts))] == expected
