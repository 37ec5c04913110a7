"""What contexts take, for every kind of memory."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cbatch.config import ContextConfig
from cbatch.llama import machine
from cbatch.llama.memory import KV_SHARE, kv_budget, kv_bytes, kv_bytes_per_cell, within_memory
from cbatch.llama.model import Model

F32 = 4 * 2 * (16 + 16)
"""Bytes of K and V of one layer of the tiny models, for one token."""


@pytest.mark.parametrize(("kv_mode", "slots"), [("split", 4), ("unified", 4), ("split", 1), ("unified", 1)])
def test_windows_take_no_more_than_they_look_at_and_a_ubatch(kinds: dict[str, Model], kv_mode: str, slots: int) -> None:
    """One layer of four keeps everything; the windows of 32 with ubatches of 100 take 256 cells, of a pool as well."""
    config = ContextConfig(max_num_seqs=slots, cells_per_seq=2048, ubatch=100, kv_mode=kv_mode, kv_type="f32")
    windows = 256 * (slots if kv_mode == "split" else 1)
    assert kv_bytes(kinds["gemma3"], config) == F32 * (slots * 2048 + 3 * windows)
    assert kv_bytes_per_cell(kinds["gemma3"], config) == F32


def test_short_contexts_hold_windows_whole(kinds: dict[str, Model]) -> None:
    config = ContextConfig(max_num_seqs=3, cells_per_seq=256, ubatch=512, kv_type="f32")
    assert kv_bytes(kinds["gemma3"], config) == F32 * 3 * 256 * 4


@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_states_take_the_same_however_long_the_context(kinds: dict[str, Model], kv_mode: str) -> None:
    short, long = (ContextConfig(max_num_seqs=3, cells_per_seq=cells, kv_mode=kv_mode) for cells in (256, 4096))
    assert kv_bytes(kinds["mamba"], short) == kv_bytes(kinds["mamba"], long) == 3 * kinds["mamba"].memory.state_bytes
    assert kv_bytes_per_cell(kinds["mamba"], long) == kinds["mamba"].memory.state_bytes / 4096


def test_hybrids_take_cells_and_states(kinds: dict[str, Model]) -> None:
    config = ContextConfig(max_num_seqs=3, cells_per_seq=512, kv_type="f32")
    assert kv_bytes(kinds["jamba"], config) == 3 * (512 * F32 + kinds["jamba"].memory.state_bytes)


@pytest.mark.parametrize(
    ("main_gpu", "free"), [(None, 300.0), (0, 100.0), (1, 200.0)], ids=["all", "the first", "the second"]
)
def test_kv_goes_to_the_gpus_that_are_used(
    tiny: Model, monkeypatch: pytest.MonkeyPatch, main_gpu: int | None, free: float
) -> None:
    gpus = [
        machine.GpuDevice("CUDA0", "a", 100, 1000, integrated=False),
        machine.GpuDevice("Vulkan0", "b", 5000, 9000, integrated=True),
        machine.GpuDevice("CUDA1", "c", 200, 1000, integrated=False),
    ]
    monkeypatch.setattr(tiny, "config", replace(tiny.config, main_gpu=main_gpu))
    monkeypatch.setattr(Model, "offloaded", True)
    monkeypatch.setattr(machine, "gpu_devices", lambda: gpus)
    assert kv_budget(tiny) == KV_SHARE * free
    if main_gpu != 1:
        monkeypatch.setattr(machine, "gpu_devices", lambda: gpus[1:2])
        assert kv_budget(tiny) == KV_SHARE * 5000


def test_as_many_states_as_fit(kinds: dict[str, Model]) -> None:
    budget = 5 * kinds["mamba"].memory.state_bytes
    fitting = within_memory(kinds["mamba"], ContextConfig(max_num_seqs=32), budget=budget)
    assert fitting is not None
    assert fitting.max_num_seqs == 4
