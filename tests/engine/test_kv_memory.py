"""Prefixes, preemption, overcommit, compaction and shifts under any load: tokens never change, nobody is lost, books
hold.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from cbatch.config import Overflow, SchedulerConfig
from cbatch.engine import Engine, FakeRunner, fit_to_context
from cbatch.sampling import SamplingParams
from cbatch.types import FinishReason, Request, RequestOutput
from tests.engine.factories import alone


@dataclass(frozen=True)
class Load:
    requests: list[Request]
    arrivals: list[int]
    config: dict[str, Any]
    runner: dict[str, Any]


@st.composite
def prompts(draw: st.DrawFn) -> np.ndarray[Any, Any]:
    """Of parts that many have in common: trees of prefixes."""
    parts = draw(st.lists(st.sampled_from([(1, 9), (2, 20), (3, 33), (4, 18), (5, 1)]), min_size=1, max_size=4))
    return np.concatenate([np.full(length, token, np.int32) for token, length in parts])


@st.composite
def loads(draw: st.DrawFn) -> Load:
    slots = draw(st.integers(1, 6))
    count = draw(st.integers(1, 14))
    samples = [draw(st.sampled_from([1, 1, 1, 3])) for _ in range(count)]
    wanted = [
        Request(
            str(i),
            draw(prompts()),
            SamplingParams(max_tokens=draw(st.integers(1, 12) | st.integers(30, 80)), n=samples[i]),
            priority=draw(st.integers(-1, 1)),
            arrival_ns=i,
            fork_seeds=tuple(range(1, samples[i])),
            end_tokens=frozenset(draw(st.sets(st.integers(97, 122), max_size=3))),
        )
        for i in range(count)
    ]
    cells = draw(st.integers(20, 60) | st.just(150))
    overflow = Overflow(draw(st.sampled_from(["shift", "shift", "truncate-left"])), draw(st.integers(0, cells // 2)))
    fitted = [fit_to_context(request, cells, overflow) for request in wanted]
    requests = [request for request in fitted if isinstance(request, Request)]
    preempt = draw(st.sampled_from(["swap", "recompute", "off"]))
    config = {
        "max_num_seqs": slots,
        "max_num_batched_tokens": slots + draw(st.integers(0, 60)),
        "prefill_chunk": draw(st.none() | st.integers(1, 9)),
        "prefix_cache_bytes": draw(st.sampled_from([0, 30, 80, 1 << 30])),
        "keep_prefixes": draw(st.booleans()),
        "group_prefixes": draw(st.booleans()),
        "drain": draw(st.sampled_from(["arrival", "longest"])),
        "share_cells": overflow.policy != "shift",
        "preempt": preempt,
        "ageing_ns": draw(st.sampled_from([1 << 40, 4, 1])),  # of arrivals that are 1 ns apart
        "kv_overcommit": preempt != "off" and draw(st.booleans()),
        "batching": draw(st.sampled_from(["continuous", "continuous", "static"])),
    }
    shares = draw(st.booleans())  # a pool with full attention
    runner = {
        "max_num_seqs": slots,
        "cells_per_seq": cells,
        "total_cells": draw(st.none() | st.integers(cells, 2 * cells)),
        "cuts": shares or draw(st.booleans()),
        "holes_cost": not shares and draw(st.booleans()),
        "split_calls": draw(st.booleans()),
        "shares": shares,
        "copy_ns_per_token": draw(st.sampled_from([0, 1_000])),
        "loses": frozenset(draw(st.sets(st.sampled_from("012"), max_size=2))),
    }
    arrivals = sorted(draw(st.lists(st.integers(0, 30), min_size=count, max_size=count)))
    return Load(requests, arrivals, config, runner)


def shared_tokens(batch: Engine) -> int:
    """Tokens of prompts, without the last one of each, that running sequences hold; less the different ones of them."""
    held = []
    for seq in batch.scheduler.running:
        # nothing of a prompt that no other could share is looked at
        budget = batch.scheduler.config.prefix_cache_bytes
        if seq.request.fork_seeds or (budget > 0 and seq.num_prompt >= 16):
            kept = min(seq.num_computed, seq.request.keep) if seq.num_dropped else seq.num_computed
            held.append(seq.request.prompt[: min(kept, seq.num_prompt - 1)].tolist())
    different = {tuple(tokens[:length]) for tokens in held for length in range(1, len(tokens) + 1)}
    return sum(map(len, held)) - len(different)


def play(load: Load, batch: Engine) -> dict[str, RequestOutput]:
    """Every output, with the books checked after each step."""
    pending = list(zip(load.arrivals, load.requests, strict=True))
    done: dict[str, RequestOutput] = {}
    step = 0
    while pending or batch.has_work:
        while pending and pending[0][0] <= step:
            batch.add(pending.pop(0)[1])
        if not pending:
            batch.end_arrivals()
        for output in batch.step():
            assert output.id not in done
            done[output.id] = output
        batch.check_integrity()
        assert batch.scheduler.prefixes.holdings.shared == shared_tokens(batch)
        step += 1
        assert step < 5_000, "nothing gets done any more"
    return done


@settings(max_examples=200)
@given(loads())
def test_whatever_happens_to_its_kv_a_request_gets_its_tokens(load: Load) -> None:
    runner = FakeRunner(**load.runner, keep_plans=False)  # plans keep snapshots alive
    done = play(load, Engine(runner, SchedulerConfig(**load.config)))
    assert done.keys() == {wanted.id for wanted in load.requests}
    for wanted in load.requests:
        tokens = alone(wanted)
        for output in (done[wanted.id], *done[wanted.id].others):
            assert output.finish_reason in (FinishReason.STOP, FinishReason.LENGTH)
            assert output.token_ids.tolist() == tokens
            parts = output.times
            assert min(parts) >= 0
            assert output.admitted_ns is not None
            assert sum(parts) <= output.finished_ns - output.admitted_ns


@settings(max_examples=100)
@given(loads())
def test_what_is_restored_is_not_computed(load: Load) -> None:
    runner = FakeRunner(**{**load.runner, "loses": frozenset(), "shares": False})
    batch = Engine(runner, SchedulerConfig(**{**load.config, "preempt": "off", "kv_overcommit": False}))
    done = play(load, batch)
    outputs = [each for output in done.values() for each in (output, *output.others)]
    prompt_tokens = sum(int(output.request.prompt.size) for output in outputs)
    computed = sum(work.length for plan in runner.plans for work in plan.prefills)
    assert computed == prompt_tokens - sum(output.cached_tokens for output in outputs)
    assert sum(plan.restored_tokens for plan in runner.plans) == sum(output.cached_tokens for output in outputs)
    assert all(output.cached_tokens < output.request.prompt.size for output in outputs)
