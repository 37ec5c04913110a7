"""Shapes of steps told from tables alone: what was made with known costs gives these costs back."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from cbatch.config import ContextConfig
from cbatch.errors import InputError
from cbatch.sim.fit import fit
from cbatch.sim.measured import MeasuredStep, deviation_of
from cbatch.sim.recorded import read_steps
from cbatch.types import Request
from tests.engine.factories import request
from tests.sim.recording import COSTS, Recorder, play

UNIFIED = ContextConfig(max_num_seqs=8, cells_per_seq=1024, kv_mode="unified")


def requests(count: int, seed: int = 0, gap_ms: float = 150, **fields: Any) -> list[Request]:
    random = np.random.default_rng(seed)
    times = np.cumsum(random.exponential(gap_ms * 1e6, count)).astype(int).tolist()
    lengths = zip(random.integers(1, 200, count).tolist(), random.integers(1, 40, count).tolist(), strict=True)
    return [
        request(str(i), prompt, outputs, arrival_ns=at, **fields)
        for i, (at, (prompt, outputs)) in enumerate(zip(times, lengths, strict=True))
    ]


def recorded(recorder: Recorder, directory: Path, **options: Any) -> list[MeasuredStep]:
    recorder.write(directory)
    steps, rows = directory / "steps.parquet", directory / "requests.parquet"
    return read_steps(steps, rows, **{"streams": True, "ubatch": 512, **options})


@pytest.mark.parametrize(
    ("context", "scheduler"),
    [
        (None, {}),
        (None, {"max_num_batched_tokens": 24}),
        (None, {"prefill_chunk": 17}),
        (None, {"batching": "static"}),
        (None, {"prefix_cache_bytes": 1 << 30, "keep_prefixes": True}),
        (UNIFIED, {}),
        (UNIFIED, {"max_num_batched_tokens": 24}),
    ],
    ids=["split", "budget", "chunked", "static", "prefixes", "unified", "unified-budget"],
)
def test_steps_are_told_to_the_nanosecond(
    context: ContextConfig | None, scheduler: dict[str, Any], tmp_path: Path
) -> None:
    recorder = play(requests(60), context=context, **scheduler)
    known = {"keeps_slots": scheduler.get("batching") == "static", "prefill_chunk": scheduler.get("prefill_chunk")}
    steps = recorded(recorder, tmp_path, streams=context is None, **known)
    assert len(steps) == len(recorder.steps)
    for step in steps:
        for call in step.calls:
            assert call.ns == pytest.approx(COSTS.call_ns(call.ubatches), abs=4)  # each call is rounded
        assert step.sampled == 0 or step.sample_ns > 0


def test_a_run_of_which_nothing_is_sure_is_left_out(tmp_path: Path) -> None:
    recorder = play(requests(60))
    recorder.write(tmp_path)
    rows = pq.read_table(tmp_path / "requests.parquet").to_pylist()
    rows[10]["slot"] = 7 - rows[10]["slot"]
    pq.write_table(pa.Table.from_pylist(rows), tmp_path / "requests.parquet")
    found = read_steps(tmp_path / "steps.parquet", tmp_path / "requests.parquet", streams=True, ubatch=512)
    assert len(recorder.steps) - 60 < len(found) < len(recorder.steps)


def test_fitting_to_them_gives_the_costs_back(tmp_path: Path) -> None:
    found = fit(recorded(play(requests(200, gap_ms=100)), tmp_path / "known"))
    others = recorded(play(requests(100, seed=1)), tmp_path / "other")
    error = deviation_of(found, others)
    assert error.mean < 0.02
    assert abs(error.total) < 0.01


def test_restored_tokens_are_known(tmp_path: Path) -> None:
    steps = recorded(play(requests(60), prefix_cache_bytes=1 << 30, keep_prefixes=True), tmp_path)
    assert sum(step.restored_tokens for step in steps) > 0
    assert sum(step.saved_tokens for step in steps) > 0


def test_what_only_later_versions_write_may_be_missing(tmp_path: Path) -> None:
    recorder = play(requests(30), compact=False)
    recorder.write(tmp_path)
    whole = recorded(recorder, tmp_path)
    steps, rows = tmp_path / "steps.parquet", tmp_path / "requests.parquet"
    later = ["padding_seqs", "moved", "restored_tokens", "restore_ns", "save_ns"]
    pq.write_table(pq.read_table(steps).drop_columns(later), steps)
    pq.write_table(pq.read_table(rows).drop_columns(["sample", "cached_tokens", "preemptions"]), rows)
    assert read_steps(steps, rows, streams=True, ubatch=512) == whole


def test_steps_that_padded_or_preempted_are_left_out(tmp_path: Path) -> None:
    recorder = play(requests(40, gap_ms=50), batching="padded", preempt="off")
    padded = sum(step.padding_seqs > 0 for step in recorder.steps)
    assert padded > 0
    assert len(recorded(recorder, tmp_path)) <= len(recorder.steps) - padded


def test_of_a_long_run_the_last_steps_are_taken(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = play(requests(60), compact=False)
    whole = recorded(recorder, tmp_path)
    monkeypatch.setattr("cbatch.sim.recorded.MOST_STEPS", 100)
    found = recorded(recorder, tmp_path)
    assert 50 < len(found) <= 100
    assert found == whole[-len(found) :]


def test_a_run_of_nothing_has_no_steps(tmp_path: Path) -> None:
    recorder = play(requests(3))
    recorder.write(tmp_path)
    steps = tmp_path / "steps.parquet"
    pq.write_table(pq.read_table(steps).slice(0, 0), steps)
    assert read_steps(steps, tmp_path / "requests.parquet", streams=True, ubatch=512) == []


def test_tables_that_are_none(tmp_path: Path) -> None:
    with pytest.raises(InputError, match=r"steps\.parquet can't be read \(No such file"):
        read_steps(tmp_path / "steps.parquet", tmp_path / "requests.parquet", streams=True, ubatch=512)
    (tmp_path / "steps.parquet").write_bytes(b"none")
    with pytest.raises(InputError, match=r"steps\.parquet can't be read"):
        read_steps(tmp_path / "steps.parquet", tmp_path / "requests.parquet", streams=True, ubatch=512)
    pq.write_table(pa.table({"step": [1]}), tmp_path / "steps.parquet")
    with pytest.raises(InputError, match="has no column start_ns, end_ns"):
        read_steps(tmp_path / "steps.parquet", tmp_path / "requests.parquet", streams=True, ubatch=512)
