"""Estimates against what the library says that it allocated."""

from __future__ import annotations

import re
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from cbatch.config import ContextConfig, ModelConfig
from cbatch.errors import ModelError
from cbatch.llama import estimate, machine
from cbatch.llama.context import Context
from cbatch.llama.estimate import MemoryEstimate, _logged, check_memory, estimate_memory
from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.llama.tiny import KINDS, write_tiny
from tests.llama.split import write_split

CONTEXT = ContextConfig(max_num_seqs=3, cells_per_seq=512)
SIZE = re.compile(r" (\S+) +(model|KV|RS|compute|output) buffer size = +([\d.]+) MiB")


def reported(config: ModelConfig, context: ContextConfig) -> dict[str, float]:
    """MiB that the library says it allocated: `weights`, `repacked`, `kv`, and `compute`."""
    sums = dict.fromkeys(("weights", "repacked", "kv", "compute"), 0.0)
    with _logged() as lines, Model(config) as model, closing(Context(model, context)):
        pass
    names = {"KV": "kv", "RS": "kv", "compute": "compute", "output": "compute"}
    for buffer, kind, size in SIZE.findall("\n".join(lines)):
        model_part = "repacked" if buffer in ("AMX", "CPU_REPACK") else "weights"
        sums[names.get(kind, model_part)] += float(size)
    return sums


def check(path: Path, context: ContextConfig) -> None:
    """Each part within what the log rounds to, and mapped weights within what lies between tensors."""
    config = ModelConfig(path, gpu_layers=0)
    found, real = estimate_memory(config, context), reported(config, context)
    assert found.compute / 2**20 == pytest.approx(real["compute"], abs=0.02)
    assert found.kv / 2**20 == pytest.approx(real["kv"], abs=0.03, rel=0.001)
    assert found.repacked / 2**20 == pytest.approx(real["repacked"], abs=0.02, rel=0.001)
    # the range from the first mapped tensor to the last one counts, whatever is between
    assert found.weights / 2**20 <= real["weights"] + 0.02


@pytest.mark.parametrize("kind", sorted(KINDS))
@pytest.mark.parametrize("kv_mode", ["split", "unified"])
def test_parts_are_what_the_library_allocates(tmp_path: Path, kind: str, kv_mode: str) -> None:
    path = write_tiny(tmp_path / "tiny.gguf", kind=kind)
    check(path, ContextConfig(max_num_seqs=3, cells_per_seq=512, kv_mode=kv_mode, kv_type="f16"))


@pytest.mark.parametrize("weight_type", ["F16", "BF16", "Q8_0", "Q4_0", "Q4_1", "Q4_K", "Q6_K"])
def test_so_are_weights_of_any_type(tmp_path: Path, weight_type: str) -> None:
    check(write_tiny(tmp_path / "tiny.gguf", weight_type=weight_type), CONTEXT)


@pytest.mark.parametrize(
    "context",
    [
        ContextConfig(max_num_seqs=32, cells_per_seq=512),
        ContextConfig(max_num_seqs=8, cells_per_seq=2048, flash_attn="off", kv_type="f16"),
        ContextConfig(max_num_seqs=8, cells_per_seq=1024, ubatch=128, kv_mode="unified", kv_type="q8_0"),
    ],
)
def test_a_real_model(context: ContextConfig) -> None:
    check(resolve_model("smollm2"), context)


def test_all_parts_of_a_split_model_count(tmp_path: Path) -> None:
    parts = write_split(tmp_path / "m", parts=3)
    whole = write_tiny(tmp_path / "whole.gguf")
    found = estimate_memory(ModelConfig(parts[0], gpu_layers=0), CONTEXT)
    assert found.total == estimate_memory(ModelConfig(whole, gpu_layers=0), CONTEXT).total


def test_nothing_is_repacked_where_that_is_off(tmp_path: Path) -> None:
    config = ModelConfig(write_tiny(tmp_path / "m.gguf", weight_type="Q4_0"), gpu_layers=0, use_extra_bufts=False)
    assert estimate_memory(config, CONTEXT).repacked == 0


GIB = 2**30
Estimate = Callable[..., MemoryEstimate]


def make(**parts: int) -> MemoryEstimate:
    return MemoryEstimate(
        **{"weights": 0, "repacked": 0, "kv": 0, "compute": 0, "available": 8 * GIB, "limit": 8 * GIB} | parts
    )


def test_only_what_can_t_work_is_a_problem() -> None:
    assert make(repacked=7 * GIB, kv=GIB).problem is None
    assert make(weights=5 * GIB, kv=2 * GIB, available=2 * GIB).problem is None  # pages of files can be dropped
    held = make(repacked=2 * GIB, kv=GIB, compute=GIB, available=3 * GIB)
    assert (held.held, held.total) == (4 * GIB, 4 * GIB)
    assert held.problem == "4.00 GiB of that can't be dropped, and 3.00 GiB are free"
    more = make(weights=7 * GIB, kv=2 * GIB)
    assert more.problem is not None
    assert "may have 8.00 GiB" in more.problem


@pytest.fixture
def config(tiny_model: Path) -> ModelConfig:
    return ModelConfig(tiny_model, gpu_layers=0)


def test_a_model_without_room_is_refused_with_figures(config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    check_memory(config.path, config, CONTEXT)
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    with pytest.raises(
        ModelError, match=r"tiny.gguf doesn't fit .* one slot of 256 KV cells .* 0.00 GiB are free"
    ) as e:
        check_memory(config.path, config, CONTEXT)
    assert "--no-memory-check" in str(e.value)


def test_a_model_larger_than_the_machine_is_refused(config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "memory_limit", lambda: 300_000)
    with pytest.raises(ModelError, match="read from disk in every step"):
        check_memory(config.path, config, CONTEXT)


def test_gpus_are_not_judged(config: ModelConfig, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(machine, "available_memory", lambda: 1000)
    monkeypatch.setattr(estimate, "_offloads", lambda config: True)
    check_memory(config.path, config, CONTEXT)


def test_a_model_that_can_t_be_loaded_says_why(tmp_path: Path) -> None:
    path = write_tiny(tmp_path / "cut.gguf")
    path.write_bytes(path.read_bytes()[:-5000])
    with pytest.raises(ModelError, match=r"cut.gguf can't be loaded"):
        estimate_memory(ModelConfig(path, gpu_layers=0), CONTEXT)
