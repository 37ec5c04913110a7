"""Fixtures that many tests share: a tiny generated model, and SmolLM2 as its package ships it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import settings

from cbatch.config import ModelConfig
from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.llama.tiny import write_tiny

# how long an example takes depends on what else the machine does, and says nothing of the code
settings.register_profile("cbatch", deadline=None)
settings.load_profile("cbatch")


@pytest.fixture(scope="session")
def tiny_model(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A two-layer random llama with one token a byte, f32 weights, ChatML template, 2,048 tokens of context."""
    return write_tiny(tmp_path_factory.mktemp("models") / "tiny.gguf")


@pytest.fixture(scope="session")
def tiny(tiny_model: Path) -> Iterator[Model]:
    with Model(ModelConfig(tiny_model)) as model:
        yield model


@pytest.fixture(scope="session")
def smollm2() -> Iterator[Model]:
    with Model(ModelConfig(resolve_model("smollm2"))) as model:
        yield model
