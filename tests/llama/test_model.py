"""What the library is told when it loads a model."""

from __future__ import annotations

from dataclasses import replace

import pytest

from cbatch.llama.lib import C
from cbatch.llama.model import Model


def test_one_gpu_is_used_alone(tiny: Model, monkeypatch: pytest.MonkeyPatch) -> None:
    """The library looks at main_gpu only where nothing is split."""
    assert tiny._params().split_mode == C.LLAMA_SPLIT_MODE_LAYER
    for gpu in (0, 1):
        monkeypatch.setattr(tiny, "config", replace(tiny.config, main_gpu=gpu))
        params = tiny._params()
        assert (params.split_mode, params.main_gpu) == (C.LLAMA_SPLIT_MODE_NONE, gpu)


def test_an_original_context_is_told_by_few_models(tiny: Model) -> None:
    assert tiny.n_ctx_original is None
