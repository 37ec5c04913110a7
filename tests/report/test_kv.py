from __future__ import annotations

from dataclasses import replace
from typing import Any

from cbatch.metrics import RunAccumulator, RunSummary
from cbatch.report.kv import kv_facts
from tests.metrics.factories import make_step, no_view

MIB = 2**20


def summary(bytes_per_token: float | None = None, steps: int = 1, **fields: Any) -> RunSummary:
    accumulator = RunAccumulator(bytes_per_token)
    for _ in range(steps):
        step = make_step(end_ns=1, kv_used_cells=120, kv_shared_cells=20, kv_reserved_cells=800, kv_static_cells=5120)
        accumulator.step(step, no_view)
    return replace(accumulator.summary(), **fields)


def test_memory_is_told_by_its_peaks() -> None:
    told = dict(kv_facts(summary(bytes_per_token=MIB / 8)))
    assert told == {
        "KV memory": "peak 15.0 MiB of tokens (12.5 MiB with shared prefixes once), 100 MiB reserved; "
        "static reservation 640 MiB"
    }


def test_memory_is_told_in_cells_where_their_bytes_are_not_known() -> None:
    told = dict(kv_facts(summary()))
    assert told == {
        "KV memory": "peak 120 cells of tokens (100 with shared prefixes once), 800 reserved; static reservation 5,120"
    }


def test_prefixes_are_not_told_of_where_none_are_shared() -> None:
    accumulator = RunAccumulator()
    accumulator.step(make_step(end_ns=1, kv_used_cells=120, kv_reserved_cells=800, kv_static_cells=5120), no_view)
    told = dict(kv_facts(accumulator.summary()))
    assert told == {"KV memory": "peak 120 cells of tokens, 800 reserved; static reservation 5,120"}


def test_a_run_without_steps_has_nothing_to_say() -> None:
    assert list(kv_facts(summary(steps=0))) == []


def test_prefixes_that_were_restored() -> None:
    reuse: dict[str, Any] = {"restored_tokens": 100, "prefix_hit_rate": 0.741, "ideal_prefix_hit_rate": 0.76}
    told = dict(kv_facts(summary(saved_ns=21.4e9, **reuse)))
    assert told["prefixes"] == "74 % of prompt tokens restored, 76 % at best; 21.4 s saved"
    told = dict(kv_facts(summary(saved_ns=-3e6, **reuse)))
    assert told["prefixes"] == "74 % of prompt tokens restored, 76 % at best; 3.0 ms lost"
    told = dict(kv_facts(summary(saved_ns=None, **reuse)))
    assert told["prefixes"] == "74 % of prompt tokens restored, 76 % at best"


def test_preemptions_are_counted() -> None:
    assert dict(kv_facts(summary(preemptions=1)))["preempted"] == "once a sequence gave its slot to others"
    assert dict(kv_facts(summary(preemptions=1200)))["preempted"] == "1,200 times a sequence gave its slot to others"
