"""Tiny models of every kind of memory."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack

import pytest

from cbatch.config import ModelConfig
from cbatch.llama.model import Model
from cbatch.llama.tiny import KINDS, write_tiny


@pytest.fixture(scope="session")
def kinds(tmp_path_factory: pytest.TempPathFactory) -> Iterator[dict[str, Model]]:
    """A model of each kind in `KINDS`."""
    folder = tmp_path_factory.mktemp("kinds")
    with ExitStack() as stack:
        yield {
            kind: stack.enter_context(Model(ModelConfig(write_tiny(folder / f"{kind}.gguf", kind=kind))))
            for kind in KINDS
        }
