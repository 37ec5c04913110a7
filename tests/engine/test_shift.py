"""Sequences that outgrow their cells: what they drop, and that the books follow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cbatch.engine import Engine, FakeRunner
from cbatch.engine.runner import Shift
from cbatch.errors import ParameterError
from tests.engine.factories import engine, request


def small(runner: FakeRunner | None = None, **config: Any) -> tuple[Engine, FakeRunner]:
    """An engine with one slot of 10 cells."""
    if runner is None:
        runner = FakeRunner(max_num_seqs=1, cells_per_seq=10)
    return engine(runner, **{"max_num_seqs": 1, "share_cells": False, **config})


def test_a_full_context_drops_the_older_half_of_what_it_does_not_keep() -> None:
    batch, runner = small()
    batch.add(replace(request("a", prompt=4, max_tokens=20), max_cells=10, keep=2))
    outputs = []
    held = []
    while batch.has_work:
        outputs += batch.step()
        batch.check_integrity()
        held.append(runner.num_tokens(0))
    shifts = [shift for plan in runner.plans for shift in plan.shifts]
    assert [(shift.keep, shift.length) for shift in shifts] == [(2, 4)] * 4
    assert held == [4, 5, 6, 7, 8, 9, 10, 7, 8, 9, 10, 7, 8, 9, 10, 7, 8, 9, 10, 7]
    assert outputs[0].token_ids.size == 20
    assert outputs[0].dropped_tokens == 16


def test_what_is_left_of_the_context() -> None:
    batch, runner = small()
    batch.add(replace(request("a", prompt=8, max_tokens=6), max_cells=10, keep=1))
    while not (runner.plans and runner.plans[-1].shifts):
        batch.step()
    (seq,) = batch.scheduler.running
    assert runner.plans[-1].shifts == (Shift(seq, 1, 4),)
    assert seq.tokens(0, 7).tolist() == [1, 6, 7, 8, *seq.output[:3]]
    assert seq.tokens(0, 1).tolist() == [1]
    assert seq.tokens(2, 5).tolist() == [7, 8, seq.output[0]]
    assert seq.tokens(0, seq.num_tokens).tolist()[-1] == seq.output[-1]


def test_a_shifted_sequence_is_swapped_whatever_becomes_of_others() -> None:
    batch, runner = small(preempt="recompute")
    batch.add(replace(request("low", prompt=4, max_tokens=20, priority=1), max_cells=10))
    while not (runner.plans and runner.plans[-1].shifts):
        batch.step()
    batch.add(request("high", max_tokens=1))
    outputs = {output.id: output for output in batch}
    assert len([plan for plan in runner.plans if plan.swaps]) == 1
    assert outputs["low"].preemptions == 1
    assert outputs["low"].token_ids.size == 20
    assert sum(work.length for plan in runner.plans for work in plan.prefills) == 4 + 4


def test_one_that_is_full_and_recomputed_drops_nothing_before_it_would_have() -> None:
    batch, runner = small(preempt="recompute")
    batch.add(replace(request("low", prompt=4, max_tokens=20, priority=1), max_cells=10))
    while runner.num_tokens(0) < 10:
        batch.step()
    batch.add(request("high", max_tokens=1))
    batch.step()
    batch.step()
    assert [work.length for work in runner.plans[-1].prefills] == [10]
    assert not runner.plans[-1].shifts
    batch.step()
    assert [shift.length for shift in runner.plans[-1].shifts] == [5]


def test_shifting_is_refused_where_the_memory_cannot() -> None:
    batch, _ = small(FakeRunner(max_num_seqs=1, cells_per_seq=10, shifts=False))
    batch.add(replace(request("fits", prompt=4, max_tokens=7), max_cells=10))
    with pytest.raises(ParameterError, match="may outgrow its 10 KV cells"):
        batch.add(replace(request("long", prompt=4, max_tokens=8), max_cells=10))


def test_shifting_is_refused_where_cells_may_be_shared() -> None:
    batch, _ = small(share_cells=True)
    with pytest.raises(ParameterError, match="needs share_cells off"):
        batch.add(replace(request("long", prompt=4, max_tokens=8), max_cells=10))
