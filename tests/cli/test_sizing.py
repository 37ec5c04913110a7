"""The size of a context: what the rows want, within what the model and the memory allow."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from cbatch.cli import parts
from cbatch.cli.options import OutputFormat, Summary
from cbatch.cli.run_options import RunOptions
from cbatch.cli.sizing import cells_needed, cells_wanted, slots_wanted
from cbatch.errors import UsageError
from cbatch.llama import memory
from cbatch.llama.model import Model
from cbatch.types import Job, RowFault, RowRef
from tests.engine.factories import request

CELL = 2 * 2 * (16 + 16) * 2
"""Bytes of a KV cell of the tiny model, in bf16."""


def options(**given: Any) -> RunOptions:
    values: dict[str, Any] = dict.fromkeys(RunOptions.__dataclass_fields__)
    values.update(
        inputs=["x"], model="m", output_format=OutputFormat.parquet, summary=Summary.table, max_tokens=16,
        temperature=0.0, top_k=0, top_p=1.0, min_p=0.0, typical_p=1.0, repetition_penalty=1.0, presence_penalty=0.0,
        frequency_penalty=0.0, seed=0, ignore_eos=False, max_num_seqs=8, max_num_batched_tokens=2048, kv="auto",
        cpu_mask="none", priority="normal", ubatch=512, gpu_layers=-1,
    )  # fmt: skip
    return replace(RunOptions(**values), **given)


def rows(*lengths: int) -> list[Job]:
    return [
        (RowRef(i, str(i), f"x:{i}", 0), request(str(i), prompt=length, max_tokens=1))
        for i, length in enumerate(lengths, 1)
    ]


FAULT = RowFault(RowRef(9, "9", "x:9", 0), "invalid_json", "no")


def test_the_window_says_what_is_wanted() -> None:
    assert cells_needed([*rows(7, 9), FAULT]) == [7, 9]
    assert cells_wanted([*[10] * 19, 700], limit=2048) == (700, 10)
    assert cells_wanted([5000], limit=2048) == (2048, 2048)
    assert cells_wanted([], limit=2048) == (256, 256)
    assert slots_wanted([1, 2, 3], 32, all_read=True) == 3
    assert slots_wanted([1, 2, 3], 32, all_read=False) == 32
    assert slots_wanted([], 32, all_read=True) == 1


def sized(
    model: Model, window: list[Job], budget_cells: float, monkeypatch: pytest.MonkeyPatch, **given: Any
) -> tuple[int, int, str | None]:
    for module in (parts, memory):
        monkeypatch.setattr(module, "kv_budget", lambda _: budget_cells * CELL)
    wanted = options(**given)
    limit = parts.most_cells(wanted, model)
    config, note = parts.size_for_rows(wanted, model, cells_needed(window), all_read=False, limit=limit)
    return config.max_num_seqs, config.cells_per_seq, note


def test_memory_bounds_the_context(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    window = rows(*[200] * 19, 1900)
    assert sized(tiny, window, 8 * 2048, monkeypatch) == (8, 2048, None)
    # not enough for the longest row in every slot: for most rows then, and it grows later
    assert sized(tiny, window, 8 * 2047, monkeypatch) == (8, 256, None)
    # not even that: fewer slots, and it's said
    assert sized(tiny, window, 1500, monkeypatch) == (4, 256, "memory allows 4 slots of 256 KV cells, not 8")
    assert parts.most_cells(options(), tiny) == 1280
    with pytest.raises(UsageError, match="255 KV cells fit"):
        sized(tiny, window, 255, monkeypatch)


def test_a_pool_is_for_most_rows_and_holds_the_longest(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sized(tiny, rows(*[200] * 19, 1900), 1e9, monkeypatch, kv="unified") == (8, 256, None)
    assert sized(tiny, rows(*[2] * 19, 1900), 1e9, monkeypatch, kv="unified", max_num_seqs=2) == (2, 1024, None)


def test_a_context_asked_for_is_made_or_refused(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    assert sized(tiny, rows(5), 8 * 512, monkeypatch, ctx=300) == (8, 512, None)
    assert sized(tiny, rows(5), 4 * 512, monkeypatch, ctx=300)[:2] == (4, 512)
    with pytest.raises(UsageError, match="one row of 512 KV cells"):
        sized(tiny, rows(5), 511, monkeypatch, ctx=300)
