"""A run's parts: what a broken build of the library changes, and where threads are bound."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from cbatch.cli import parts
from cbatch.config import ModelConfig
from cbatch.errors import UsageError
from cbatch.llama import machine
from cbatch.llama.probe import ProbeResult
from tests.cli.test_sizing import options


def test_kernels_that_crash_are_avoided_and_the_repair_is_named(
    tiny_model: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    broken = ProbeResult(frozenset({"F32"}), {"F32": "died by SIGSEGV"}, {}, cached=False)
    monkeypatch.setattr(parts, "probe", lambda types: broken)
    config, warning = parts.check_model(options(model=str(tiny_model)))
    assert not config.use_extra_bufts
    assert warning is not None
    assert "pip install --no-cache-dir --force-reinstall" in warning
    assert "-fno-tree-dse -fno-dse" in warning


def test_kernels_that_work_are_used(tiny_model: Path) -> None:
    config, warning = parts.check_model(options(model=str(tiny_model)))
    assert config.use_extra_bufts
    assert warning is None


def test_one_gpu_is_the_only_one() -> None:
    def given(**more: Any) -> ModelConfig:
        return options(**more).model_config(Path("m.gguf"), use_extra_bufts=True)

    assert (given().main_gpu, given(main_gpu=0).main_gpu) == (None, 0)
    with pytest.raises(UsageError, match=r"--main-gpu .* and --tensor-split on several: keep one"):
        given(main_gpu=1, tensor_split="3,1")


def test_threads_are_bound_only_where_every_cpu_has_one(monkeypatch: pytest.MonkeyPatch) -> None:
    def bound(mask: str, cpus: tuple[int, ...], threads: int | None) -> tuple[int, ...]:
        monkeypatch.setattr(machine, "allowed_cpus", lambda: cpus)
        monkeypatch.setattr(machine, "default_threads", lambda: 4)
        given = options(cpu_mask=mask, threads=threads)
        return parts.place_threads(given, given.context_config()).cpus

    assert bound("auto", (0, 1, 2, 3), None) == (0, 1, 2, 3)
    assert bound("auto", (2, 3), 2) == (2, 3)
    assert bound("auto", (0, 1, 2, 3, 4, 5, 6, 7), None) == ()
    assert bound("auto", (0,), 1) == ()
    assert bound("auto", (), None) == ()
    assert bound("none", (0, 1, 2, 3), None) == ()
    assert bound("1,3", (0, 1, 2, 3), None) == (1, 3)
    with pytest.raises(UsageError, match="CPU 7 can't be used here, 0-3 can"):
        bound("0,7", (0, 1, 2, 3), None)
    with pytest.raises(UsageError, match="CPU 1 can't be used here, 0,2,5 can"):
        bound("1", (0, 2, 5), None)
