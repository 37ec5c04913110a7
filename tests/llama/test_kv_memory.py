"""Prefixes, forks, preemption and moves on real memories of each kind: tokens stay what they are undisturbed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.tiny import KINDS, write_tiny
from cbatch.sampling import SamplingParams
from cbatch.types import Request, RequestOutput
from tests.llama.running import llama_engine

EXACT: dict[str, Any] = {"kv_type": "f32", "flash_attn": "off"}


@pytest.fixture(scope="module", params=sorted(KINDS))
def model(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Any:
    path = write_tiny(tmp_path_factory.mktemp(request.param) / "tiny.gguf", kind=request.param)
    with Model(ModelConfig(path, gpu_layers=0)) as loaded:
        yield loaded


def play(
    model: Model, requests: list[Request], *, arrivals: int = 3, context: dict[str, Any] | None = None, **config: Any
) -> tuple[dict[str, RequestOutput], list[int]]:
    """Every `arrivals` steps a request comes; outputs by id, and preemptions by step."""
    pending = list(requests)
    outputs: dict[str, RequestOutput] = {}
    preempted = []
    step = 0
    options = {**EXACT, **(context or {}), "scheduler": {"share_cells": True, **config}}
    with llama_engine(model, **options) as (engine, _):
        while pending or engine.has_work:
            if pending and step % arrivals == 0:
                engine.add(pending.pop(0))
            outputs.update({output.id: output for output in engine.step()})
            engine.check_integrity()
            preempted.append(engine.last_step.preempted if engine.last_step is not None else 0)
            step += 1
    return outputs, preempted


def rows(count: int = 12, *, seed: int = 0, **sampling: Any) -> list[Request]:
    """Of three prefixes, with beginnings that are shared in turn, and priorities."""
    rng = np.random.default_rng(seed)
    heads = [rng.integers(0, 256, 60) for _ in range(3)]
    heads[1][:40] = heads[0][:40]
    made = []
    for i in range(count):
        prompt = np.concatenate([heads[i % 3], rng.integers(0, 256, int(rng.integers(1, 30)))]).astype(np.int32)
        params = SamplingParams(max_tokens=int(rng.integers(3, 40)), temperature=0.8, **sampling)
        made.append(Request(str(i), prompt, params, priority=-i, arrival_ns=i, stream_seed=i))
    return made


def tokens(outputs: dict[str, RequestOutput]) -> dict[str, list[int]]:
    return {key: output.token_ids.tolist() for key, output in outputs.items()}


@pytest.fixture(scope="module")
def undisturbed(model: Model) -> dict[str, list[int]]:
    """Each row by itself."""
    outputs, _ = play(model, rows(), arrivals=1_000, preempt="off")
    return tokens(outputs)


@pytest.mark.parametrize("preempt", ["swap", "recompute"])
@pytest.mark.parametrize("keep", [False, True])
def test_prefixes_and_preemption_change_no_token(
    model: Model, undisturbed: dict[str, list[int]], preempt: str, keep: bool
) -> None:
    config: dict[str, Any] = {
        "max_num_seqs": 2,
        "prefix_cache_bytes": 1 << 24,
        "keep_prefixes": keep,
        "preempt": preempt,
    }
    outputs, preempted = play(model, rows(), **config)
    assert sum(preempted) > 3
    if keep:
        assert sum(output.cached_tokens for output in outputs.values()) >= 100
    assert tokens(outputs) == undisturbed


@pytest.mark.parametrize("chunk", [1, 7])
def test_small_chunks_change_no_token(model: Model, undisturbed: dict[str, list[int]], chunk: int) -> None:
    config: dict[str, Any] = {"prefix_cache_bytes": 1 << 24, "group_prefixes": True, "prefill_chunk": chunk}
    outputs, _ = play(model, rows(), arrivals=1, **config)
    assert sum(output.cached_tokens for output in outputs.values()) >= 100
    assert tokens(outputs) == undisturbed


def test_a_pool_of_a_third_of_the_need_serves_all(model: Model) -> None:
    """512 cells, for 8 rows of 161 to 190 cells at once."""
    long = SamplingParams(max_tokens=100, temperature=0.8, ignore_eos=True)
    equal = [replace(row, sampling=long, priority=0) for row in rows(8)]
    pool = {"kv_mode": "unified", "pool_cells": 512, "cells_per_seq": 256, "max_num_seqs": 8}
    outputs, preempted = play(model, equal, arrivals=1, context=pool, kv_overcommit=True)
    assert sum(preempted) > 0
    assert sum(output.preemptions for output in outputs.values()) == sum(preempted)
    undisturbed, _ = play(model, equal, arrivals=1_000)
    assert tokens(outputs) == tokens(undisturbed)
    one_by_one, preempted = play(model, equal, arrivals=1, context=pool)  # serialised, as far as cells are short
    assert sum(preempted) == 0
    assert tokens(one_by_one) == tokens(undisturbed)


def test_samples_of_a_row_are_rows_with_their_seeds(model: Model) -> None:
    prompt = np.arange(100, 190, dtype=np.int32)
    sampling = SamplingParams(max_tokens=20, temperature=1.0, n=8)
    row = Request("row", prompt, sampling, stream_seed=5, fork_seeds=tuple(range(6, 13)))
    outputs, _ = play(model, [row], context={"max_num_seqs": 8})
    alone = [
        Request(str(seed), prompt, SamplingParams(max_tokens=20, temperature=1.0), stream_seed=seed)
        for seed in range(5, 13)
    ]
    expected, _ = play(model, alone, arrivals=1_000)
    got = [outputs["row"], *outputs["row"].others]
    assert [output.token_ids.tolist() for output in got] == [
        expected[str(seed)].token_ids.tolist() for seed in range(5, 13)
    ]
    assert len({tuple(output.token_ids.tolist()) for output in got}) == 8
    assert [output.cached_tokens for output in got] == [0] + [89] * 7


@pytest.mark.parametrize("preempt", ["swap", "recompute"])
def test_giving_way_at_any_step_changes_no_token(model: Model, preempt: str) -> None:
    prompt = np.arange(100, 140, dtype=np.int32)
    low = Request("low", prompt, SamplingParams(max_tokens=9, temperature=0.8), priority=1, stream_seed=3)
    high = Request("high", prompt[5:9], SamplingParams(max_tokens=2), arrival_ns=1)
    config: dict[str, Any] = {"max_num_seqs": 1, "prefill_chunk": 7}
    undisturbed, _ = play(model, [low], **config)
    for step in range(1, 13):
        outputs, preempted = play(model, [low, high], arrivals=step, preempt=preempt, **config)
        assert sum(preempted) == 1
        assert tokens(outputs)["low"] == tokens(undisturbed)["low"]


def test_a_pool_has_the_cells_of_a_prefix_once(model: Model) -> None:
    """8 rows of the same 100 tokens, 10 of their own and 20 new ones: 8 x 130 cells, or 100 + 8 x 30."""
    rng = np.random.default_rng(3)
    head = rng.integers(0, 256, 100)
    params = SamplingParams(max_tokens=20, temperature=0.8, ignore_eos=True)
    alike = [
        Request(str(i), np.concatenate([head, rng.integers(0, 256, 10)]), params, arrival_ns=i, stream_seed=i)
        for i in range(8)
    ]
    pool = {"max_num_seqs": 8, "kv_mode": "unified", "pool_cells": 512, **EXACT}
    outputs, busy = {}, 0
    with llama_engine(model, **pool, scheduler={"prefix_cache_bytes": 1 << 24, "share_cells": True}) as (engine, _):
        for request in alike:
            engine.add(request)
        while engine.has_work:
            outputs.update({output.id: output for output in engine.step()})
            engine.check_integrity()
            assert engine.last_step is not None
            busy = max(busy, engine.last_step.slots_busy)
    assert (busy == 8) == model.memory.cuts  # other memories can't share cells: each has a copy
    assert [output.cached_tokens for output in outputs.values()].count(100) == 7
    undisturbed, _ = play(model, alike, arrivals=1_000)
    assert tokens(outputs) == tokens(undisturbed)
