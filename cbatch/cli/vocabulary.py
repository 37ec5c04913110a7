"""A model's vocabulary without its weights, for commands that only count or make tokens."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

from cbatch.config import ModelConfig
from cbatch.llama.gguf_file import check_model_files
from cbatch.llama.locate import resolve_model
from cbatch.llama.model import Model
from cbatch.llama.tokenizer import Tokenizer


@contextmanager
def vocabulary(spec: str) -> Iterator[tuple[Model, Tokenizer]]:
    """Of what `--model` takes. Raises `ModelError` or `UsageError`."""
    path, _ = check_model_files(resolve_model(spec))
    with Model(ModelConfig(path), vocab_only=True) as model:
        yield model, Tokenizer(model)
