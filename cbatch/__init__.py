"""Offline batch inference and load replay on a continuous batcher over llama.cpp, inside one process.

    from cbatch import Engine, Request, SamplingParams
    from cbatch.llama.local import LocalModel

    with LocalModel("smollm2", max_num_seqs=8) as model:
        engine = Engine(model.runner)
        for i, question in enumerate(["What is the capital of France?", "What is 2 + 2?"]):
            engine.add(model.request(str(i), question, SamplingParams(max_tokens=16)))
        for output in engine:  # finished requests, in order of completion
            print(output.id, output.text, output.finish_reason.value)

`Request` takes token ids, for whoever brings a tokenizer or a `cbatch.engine.Runner` of their own.
"""

from __future__ import annotations

from importlib import import_module
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from cbatch.engine import Engine
    from cbatch.sampling import SamplingParams
    from cbatch.types import FinishReason, Request, RequestOutput

__all__ = ["Engine", "FinishReason", "Request", "RequestOutput", "SamplingParams"]

__version__ = "0.1.0"

_HOMES = {
    "Engine": "engine",
    "FinishReason": "types",
    "Request": "types",
    "RequestOutput": "types",
    "SamplingParams": "sampling",
}


def __getattr__(name: str) -> Any:
    """Each name is imported when it is first asked for: the command line's parent process does without numpy."""
    if name not in _HOMES:
        raise AttributeError(f"module 'cbatch' has no attribute {name!r}")
    return getattr(import_module(f"cbatch.{_HOMES[name]}"), name)
