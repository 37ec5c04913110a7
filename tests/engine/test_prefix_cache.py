"""Shared prefixes: what is computed once, what is restored, and what a budget costs."""

from __future__ import annotations

from typing import Any

import numpy as np

from cbatch.config import SchedulerConfig
from cbatch.engine import Engine, FakeRunner
from cbatch.sampling import SamplingParams
from cbatch.types import Request, RequestOutput
from tests.engine.factories import alone

MS = 1_000_000


def rows(*prompts: np.ndarray[Any, Any], max_tokens: int = 8, **fields: Any) -> list[Request]:
    n = 1 + len(fields.get("fork_seeds", ()))
    sampling = SamplingParams(max_tokens=max_tokens, n=n)
    return [Request(str(i), prompt, sampling, **fields) for i, prompt in enumerate(prompts)]


def shared(count: int, common: int, own: int, seed: int = 0) -> list[np.ndarray[Any, Any]]:
    """Prompts that begin with the same tokens."""
    rng = np.random.default_rng(seed)
    head = rng.integers(0, 1000, common)
    return [np.concatenate([head, rng.integers(0, 1000, own)]).astype(np.int32) for _ in range(count)]


def play(
    requests: list[Request], *, slots: int = 32, runner: FakeRunner | None = None, **config: Any
) -> tuple[FakeRunner, Engine, dict[str, RequestOutput]]:
    """All at once."""
    if runner is None:
        runner = FakeRunner(max_num_seqs=slots, cells_per_seq=4096)
    config = {"prefix_cache_bytes": 1 << 30, "group_prefixes": True, **config}
    batch = Engine(runner, SchedulerConfig(max_num_seqs=slots, **config))
    for wanted in requests:
        batch.add(wanted)
    outputs = {}
    while batch.has_work:
        outputs.update({output.id: output for output in batch.step()})
        batch.check_integrity()
    return runner, batch, outputs


def prefilled(runner: FakeRunner) -> int:
    return sum(work.length for plan in runner.plans for work in plan.prefills)


def test_a_prefix_of_all_rows_is_computed_once() -> None:
    runner, _, outputs = play(rows(*shared(64, 512, 32)))
    assert prefilled(runner) == 512 + 64 * 32
    assert sorted(output.cached_tokens for output in outputs.values()) == [0] + [512] * 63
    assert sum(len(plan.saves) for plan in runner.plans) == 1


def test_without_a_budget_every_row_computes_its_prompt() -> None:
    runner, _, outputs = play(rows(*shared(64, 512, 32)), prefix_cache_bytes=0)
    assert prefilled(runner) == 64 * 544
    assert all(output.cached_tokens == 0 for output in outputs.values())


def test_rows_that_share_nothing_save_nothing() -> None:
    runner, _, _ = play(rows(*(shared(1, 0, 200, seed)[0] for seed in range(40))))
    assert not any(plan.saves or plan.restores for plan in runner.plans)


def test_a_short_common_beginning_is_not_worth_a_snapshot() -> None:
    runner, _, _ = play(rows(*shared(2, 10, 200)))
    assert not any(plan.saves for plan in runner.plans)


def test_whole_prompts_restore_what_is_shared_before_they_wait_for_room() -> None:
    prompts = shared(8, 512, 100)
    runner, _, outputs = play(rows(*prompts), whole_prompts=True, max_num_batched_tokens=620)
    assert prefilled(runner) == 512 + 8 * 100
    assert all(work.length in (512, 100) for plan in runner.plans for work in plan.prefills)
    assert {id_: output.token_ids.tolist() for id_, output in outputs.items()} == {
        row.id: alone(row) for row in rows(*prompts)
    }


def test_the_same_prompt_again_computes_its_last_token_only() -> None:
    runner, _, outputs = play(rows(*[shared(1, 300, 0)[0]] * 5))
    assert prefilled(runner) == 299 + 5
    assert sorted(output.cached_tokens for output in outputs.values()) == [0, 299, 299, 299, 299]


def three_levels(count: int) -> list[np.ndarray[Any, Any]]:
    """A system prompt, 10 few-shot blocks below it, 10 documents below each of these, and a question of its own."""
    rng = np.random.default_rng(7)
    system = rng.integers(0, 1000, 200)
    blocks = [rng.integers(0, 1000, 300) for _ in range(10)]
    documents = {(i, j): rng.integers(0, 1000, 400) for i in range(10) for j in range(10)}
    chosen = rng.permutation(np.repeat(np.arange(100), count // 100))
    prompts = []
    for number in chosen.tolist():
        i, j = divmod(number, 10)
        prompts.append(np.concatenate([system, blocks[i], documents[i, j], rng.integers(0, 1000, 20)]))
    return [prompt.astype(np.int32) for prompt in prompts]


def hits(runner: FakeRunner) -> tuple[int, int]:
    """Tokens restored, and those that an unlimited cache would have restored."""
    return sum(plan.restored_tokens for plan in runner.plans), sum(plan.ideal_tokens for plan in runner.plans)


def test_three_levels_under_half_the_budget_come_close_to_an_unlimited_cache() -> None:
    everything = 200 + 10 * 500 + 100 * 900  # a snapshot of each shared prefix, a byte a token
    requests = rows(*three_levels(1000))
    runner, _, _ = play(requests, prefix_cache_bytes=everything // 2)
    restored, ideal = hits(runner)
    unique = 200 + 10 * 300 + 100 * 400 + 1000 * 20
    assert abs(ideal - (1000 * 920 - unique)) < 0.002 * ideal  # some questions begin alike
    assert restored >= 0.95 * ideal
    tight, _, _ = play(requests, prefix_cache_bytes=3_000)
    assert hits(tight)[0] >= 0.9 * ideal  # rows of one document run together, so little is enough


def test_samples_of_one_prompt_share_it_even_without_a_budget() -> None:
    requests = rows(*shared(1, 100, 0), fork_seeds=tuple(range(1, 8)))
    runner, batch, outputs = play(requests, prefix_cache_bytes=0)
    assert prefilled(runner) == 99 + 8
    assert len(outputs["0"].others) == 7
    assert batch.scheduler.prefixes.store.bytes == 0  # nobody needs it any more


def test_what_is_kept_serves_later_ones_that_nobody_foresaw() -> None:
    for cuts in (True, False):
        runner = FakeRunner(max_num_seqs=4, cells_per_seq=4096, cuts=cuts)
        batch = Engine(runner, SchedulerConfig(4, prefix_cache_bytes=1 << 30, keep_prefixes=True))
        outputs = []
        for wanted in rows(*shared(4, 500, 30)):  # one after the other
            batch.add(wanted)
            outputs += list(batch)
        # a memory that can't be cut shows only at the second that there is something to share
        assert [output.cached_tokens for output in outputs] == ([0, 500, 500, 500] if cuts else [0, 0, 500, 500])


def test_a_dear_restore_is_left_alone() -> None:
    def slow(_decodes: int, _prompts: int) -> int:
        return 100 * MS

    runner = FakeRunner(max_num_seqs=2, cells_per_seq=4096, copy_ns_per_token=50 * MS, cost_ns=slow, split_calls=True)
    runner, _, outputs = play(rows(*shared(40, 64, 20)), runner=runner, slots=2)
    assert sum(output.cached_tokens > 0 for output in outputs.values()) < 5  # until it was measured


def test_cells_that_hold_the_same_are_counted() -> None:
    runner = FakeRunner(max_num_seqs=4, cells_per_seq=4096)
    batch = Engine(runner, SchedulerConfig(4, prefix_cache_bytes=1 << 30))
    for wanted in rows(*shared(3, 100, 7), max_tokens=5):
        batch.add(wanted)
    records = []
    while batch.has_work:
        batch.step()
        records.append(batch.last_step)
    assert [record.kv_used_cells for record in records[:3] if record is not None] == [100, 321, 324]
    assert [record.kv_shared_cells for record in records[:3] if record is not None] == [0, 200, 200]
